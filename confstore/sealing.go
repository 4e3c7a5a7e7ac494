package confstore

import (
	"confcenter/access/seal"
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// sealFault is why a file is not served that has a value to be sealed. It is a person's, and
// somebody else may have read it already, so it is not sealed behind their back.
const sealFault = "has a value to be sealed ($seal), and only writes through the server are sealed: write the file with `confcenter set`; whoever could read it here has seen the value"

// sealed replaces the values of a request that are to be sealed. From then on nothing knows them.
// The contents are JSON.
func (r *SetRequest) sealed(ring *seal.Ring) error {
	if !seal.Asks(r.Contents) {
		return nil
	}
	if r.Name == meta.FileName {
		return codes.Errorf(codes.BadRequest, "%s cannot have sealed values, because the server has to read it", meta.FileName)
	}
	contents, err := ring.Seal(seal.OfDocument+r.Name, r.Contents)
	if err != nil {
		return codes.Errorf(codes.Of(err), "contents of %q: %s", r.Name, codes.Message(err))
	}
	r.Contents = contents
	return nil
}

// conceal makes what identifies a request, which is remembered, tell nothing of the values in it that
// are to be sealed. What the job was given to identify it stays.
func (j *setJob) conceal(ring *seal.Ring) {
	if ring == nil {
		return // it will be refused
	}
	for i := range j.reqs {
		if seal.Mentions(j.reqs[i].Contents) {
			q := j.question()
			if j.asked == q {
				return
			}
			j.asked = ring.Digest(q[:])
			return
		}
	}
}

// asksToSeal reports whether a file has a value to be sealed; if it is no JSON, whether it may have one.
func asksToSeal(file []byte) bool {
	if !seal.Mentions(file) {
		return false
	}
	_, err := jsontext.Check(file)
	return err != nil || seal.Asks(file)
}

// Sealed reports whether the document, or one that it inherits from, has values that are sealed.
// It is cheap.
func (n *Node) Sealed(inherit bool) bool {
	if n.own != nil && n.own.sealed {
		return true
	}
	if inherit {
		for _, part := range n.parts {
			if part.sealed {
				return true
			}
		}
	}
	return false
}
