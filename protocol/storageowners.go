package protocol

// StorageOwnersQuery is STOWNERS's request.
type StorageOwnersQuery struct {
	App, Region string
	Logic       string // only owners of this type; "" all
	After       string // the last page's Next
	Limit       int    // at most so many; 0 or more than MaxOwners: MaxOwners
	// CountOnly asks only how many there are.
	CountOnly bool
}

// StorageOwnersQuery reads STOWNERS's request.
func (r *Request) StorageOwnersQuery() (StorageOwnersQuery, error) {
	m := storageReader{r: r}
	q := StorageOwnersQuery{
		App: m.id("appId"), Region: m.id("regionId"), Logic: m.text("logicType"), After: m.text("after"),
		Limit: int(m.count("limit")), CountOnly: r.Flag("count"),
	}
	if q.Limit == 0 || q.Limit > MaxOwners {
		q.Limit = MaxOwners
	}
	return q, m.err
}

// AppendStorageOwnersQuery appends STOWNERS's request.
func AppendStorageOwnersQuery(dst []byte, q StorageOwnersQuery) []byte {
	dst = appendPlace(append(dst, '{'), q.App, q.Region)
	for _, text := range [2]struct{ name, text string }{{"logicType", q.Logic}, {"after", q.After}} {
		if text.text != "" {
			dst = appendText(dst, text.name, text.text)
		}
	}
	return append(appendFlag(appendGiven(dst, "limit", int64(q.Limit)), "count", q.CountOnly), '}')
}

// StorageOwners is STOWNERS's reply, unless only their number was asked for: a page.
type StorageOwners struct {
	Owners []StorageOwner // without App and Region
	Next   string         // what to ask for the next page After; "": there is none
}

// AppendStorageOwners appends a page.
func AppendStorageOwners(dst []byte, page StorageOwners) []byte {
	dst = append(dst, `{"code":0,"owners":[`...)
	for i, o := range page.Owners {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendText(appendText(append(dst, '{'), "logicType", o.Logic), "ownerId", o.ID), '}')
	}
	return append(appendNext(append(dst, ']'), page.Next), '}')
}

// ParseStorageOwners reads a page. A refusal is a *RefusedError.
func ParseStorageOwners(body []byte) (page StorageOwners, err error) {
	var r Request
	page.Owners, err = parseList(&r, body, "owners", func(m *storageReader) StorageOwner {
		return StorageOwner{Logic: m.text("logicType"), ID: m.text("ownerId")}
	})
	page.Next = string(r.Text("next"))
	return page, err
}
