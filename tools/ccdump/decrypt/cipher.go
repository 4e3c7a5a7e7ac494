package decrypt

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"hash"

	"golang.org/x/crypto/chacha20poly1305"
)

// suite is what two sides may agree on.
type suite struct {
	tls13  bool
	key    int  // length of a key, in bytes
	chacha bool // else AES-GCM
	hash   func() hash.Hash
}

var suites = map[uint16]*suite{
	tls.TLS_AES_128_GCM_SHA256:       {tls13: true, key: 16, hash: sha256.New},
	tls.TLS_AES_256_GCM_SHA384:       {tls13: true, key: 32, hash: sha512.New384},
	tls.TLS_CHACHA20_POLY1305_SHA256: {tls13: true, key: 32, chacha: true, hash: sha256.New},

	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:         {key: 16, hash: sha256.New},
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256:       {key: 16, hash: sha256.New},
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:         {key: 32, hash: sha512.New384},
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384:       {key: 32, hash: sha512.New384},
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:   {key: 32, chacha: true, hash: sha256.New},
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: {key: 32, chacha: true, hash: sha256.New},
}

const (
	nonceSize    = 12
	explicitSize = 8 // of the nonce, which AES-GCM of TLS 1.2 sends with each record
	tagSize      = 16
)

// cover is what a record has beside what it says: header, tag, and what the version adds.
func (s *suite) cover() int {
	switch {
	case s.tls13:
		return headerSize + 1 + tagSize
	case s.chacha:
		return headerSize + tagSize
	}
	return headerSize + explicitSize + tagSize
}

func (s *suite) aead(key []byte) cipher.AEAD {
	if s.chacha {
		a, _ := chacha20poly1305.New(key) // the suite knows the length
		return a
	}
	block, _ := aes.NewCipher(key)
	a, _ := cipher.NewGCM(block)
	return a
}

// keys open the records of one side, until it takes new ones.
type keys struct {
	suite  *suite
	aead   cipher.AEAD
	iv     []byte // in TLS 1.2 with AES-GCM, its first 4 bytes
	secret []byte // of TLS 1.3, from which the next keys follow
	seq    uint64 // of the record that comes next
}

// expand is HKDF-Expand-Label of RFC 8446, 7.1, without a context. It returns nil for what
// cannot be a secret of the suite.
func (s *suite) expand(secret []byte, label string, length int) []byte {
	info := binary.BigEndian.AppendUint16(nil, uint16(length))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(info, "tls13 "+label+"\x00"...)
	b, _ := hkdf.Expand(s.hash, secret, string(info), length)
	return b
}

// from makes the keys that follow from a secret of TLS 1.3.
func (s *suite) from(secret []byte) *keys {
	return &keys{suite: s, aead: s.aead(s.expand(secret, "key", s.key)), iv: s.expand(secret, "iv", nonceSize), secret: secret}
}

// next makes the keys that follow a key update.
func (k *keys) next() *keys {
	return k.suite.from(k.suite.expand(k.secret, "traffic upd", len(k.secret)))
}

// fromMaster makes the keys of TLS 1.2 of one side, by RFC 5246, 6.3.
func (s *suite) fromMaster(secret []byte, client, server random, of Side) *keys {
	ivSize := nonceSize - explicitSize
	if s.chacha {
		ivSize = nonceSize
	}
	block := s.expandMaster(secret, append(append([]byte("key expansion"), server[:]...), client[:]...), 2*(s.key+ivSize))
	key, iv := block[:s.key], block[2*s.key:2*s.key+ivSize]
	if of == Server {
		key, iv = block[s.key:2*s.key], block[2*s.key+ivSize:]
	}
	return &keys{suite: s, aead: s.aead(key), iv: iv}
}

// expandMaster is the PRF of RFC 5246, 5.
func (s *suite) expandMaster(secret, seed []byte, length int) (out []byte) {
	sum := func(parts ...[]byte) []byte {
		h := hmac.New(s.hash, secret)
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	for a := sum(seed); len(out) < length; a = sum(a) {
		out = append(out, sum(a, seed)...)
	}
	return out[:length]
}

// open decrypts a whole record as the one with number seq and appends what it says to dst.
// kind is what it is about. ok is false if it is another one, or has other keys.
func (k *keys) open(dst, record []byte, seq uint64) (text []byte, kind byte, ok bool) {
	body, aad, nonce := record[headerSize:], make([]byte, 0, 16), make([]byte, nonceSize)
	if k.suite.tls13 {
		aad = append(aad, record[:headerSize]...)
	} else {
		said := len(record) - k.suite.cover()
		if said < 0 {
			return dst, 0, false
		}
		aad = binary.BigEndian.AppendUint64(aad, seq)
		aad = append(aad, record[:3]...)
		aad = binary.BigEndian.AppendUint16(aad, uint16(said))
	}
	if copy(nonce, k.iv); len(k.iv) == nonceSize {
		binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^seq)
	} else {
		copy(nonce[4:], body)
		body = body[explicitSize:]
	}
	text, err := k.aead.Open(dst, nonce, body, aad)
	if err != nil {
		return dst, 0, false
	}
	if !k.suite.tls13 {
		return text, record[0], true
	}
	for end := len(text); end > len(dst); end-- { // zeros pad
		if kind = text[end-1]; kind != 0 {
			return text[:end-1], kind, true
		}
	}
	return dst, 0, false
}
