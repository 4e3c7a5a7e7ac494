package protocol

import (
	"iter"
	"strconv"

	"confcenter/internal/jsontext"
)

// AppendRecords appends the reply of GETCLI, GETWARN and HUNGUP: success and one object of
// strings per record, with properties in the order given. withCount adds the member
// count, which readers of GETCLI need.
func AppendRecords(dst []byte, records iter.Seq[[]Property], withCount bool) []byte {
	dst = append(dst, `{"code":0,"desc":"success","data":[`...)
	count := int64(0)
	for props := range records {
		if count++; count > 1 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		for j, p := range props {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(jsontext.AppendQuote(dst, p.Name), ':')
			dst = jsontext.AppendQuote(dst, p.Value)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if withCount {
		dst = append(dst, `,"count":`...)
		dst = strconv.AppendInt(dst, count, 10)
	}
	return append(dst, '}')
}

// AppendMore adds to the reply of AppendRecords at the end of dst that it is a page after which
// there are more.
func AppendMore(dst []byte) []byte { return append(dst[:len(dst)-1], `,"more":true}`...) }

// AppendLines appends GETLOGR's reply.
func AppendLines(dst []byte, lines []string) []byte {
	dst = append(dst, `{"code":0,"desc":"success","data":[`...)
	for i, line := range lines {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendQuote(dst, line)
	}
	return append(dst, ']', '}')
}

// ParseRecords reads the reply of GETCLI, GETWARN or HUNGUP; more is the member that a page
// of GETCLI has. A refusal is a *RefusedError.
func ParseRecords(body []byte) (records []map[string]string, more bool, err error) {
	var r Request
	if err := r.parseSuccess(body); err != nil {
		return nil, false, err
	}
	err = r.eachObject("data", func(o *Request) {
		record := make(map[string]string, len(o.members))
		for _, m := range o.members {
			if _, double := record[string(m.Key)]; !double && m.Kind == jsontext.String {
				record[string(m.Key)] = string(jsontext.Unquote(m.Raw))
			}
		}
		records = append(records, record)
	})
	return records, r.Flag("more"), err
}

// ParseLines reads GETLOGR's reply. A refusal is a *RefusedError.
func ParseLines(body []byte) ([]string, error) {
	var r Request
	if err := r.parseSuccess(body); err != nil {
		return nil, err
	}
	m, ok := r.Member("data")
	if !ok || m.Kind != jsontext.Array {
		return nil, &ReplyError{Member: "data"}
	}
	var lines []string
	jsontext.EachElement(m.Raw, func(raw []byte, kind jsontext.Kind) bool {
		if kind == jsontext.String {
			lines = append(lines, string(jsontext.Unquote(raw)))
		}
		return true
	})
	return lines, nil
}
