package field

import (
	"confcenter/codes"
	"confcenter/kv"
)

// What operators and landers ask, and what they are told. Most of the questions of landers are about a dirty
// table.

// Nothing is a question without members.
type Nothing struct{}

// Done is the answer to what was done.
type Done struct {
	Desc string `kv:"desc"`
}

// Count is an answer.
type Count struct {
	Count int64 `kv:"count,must"`
}

// Tables is how it stands with all dirty tables.
type Tables struct {
	Tables []TableStatus `kv:"tables,must"`
}

// ErrorsAsk asks for fields that the database has refused.
type ErrorsAsk struct {
	After Ref `kv:"after,omit"`       // the last one of the page before; the zero value: the first page
	Limit int `kv:"limit,count,omit"` // at most so many; 0 or more than MaxErrors: MaxErrors
}

// MaxErrors is how many rows of the list of errors one answer has at most.
const MaxErrors = 1000

// ErrorPage is a page of them.
type ErrorPage struct {
	Errors []ErrorRow `kv:"errors,must"`
	More   bool       `kv:"more"`
}

// Refused are fields in the list of errors.
type Refused struct {
	Rows []Ref `kv:"rows,omit"` // nil: all of them
}

// Check refuses names that are none, and none at all, which would not be taken for all of them.
func (q *Refused) Check() error {
	switch {
	case q.Rows != nil && len(q.Rows) == 0:
		return codes.Errorf(codes.BadRequest, "member \"rows\" is empty; leave it out to name all")
	case len(q.Rows) > MaxFields:
		return codes.Errorf(codes.TooManyOps, "rows has more elements than the limit of %d", MaxFields)
	}
	for i := range q.Rows {
		if q.Rows[i].Name == "" {
			return codes.Errorf(codes.BadRequest, "rows %d: member name is missing", i)
		}
	}
	return nil
}

// RetryAsk has refused fields landed again, or what was landed.
type RetryAsk struct {
	Refused
	Since *int64 `kv:"since,count"` // not Rows are meant, but all that was landed and was written since then, in ms since 1970
}

// Check refuses to do both.
func (q *RetryAsk) Check() error {
	if q.Since != nil && q.Rows != nil {
		return codes.Errorf(codes.BadRequest, "rows and since exclude each other: refused fields are landed again, or all that was landed since then")
	}
	return q.Refused.Check()
}

// DropAsk gives refused fields up.
type DropAsk struct {
	Refused
	Confirm int64 `kv:"confirm,count,omit"` // how many of them that are
}

// RescanAsk says that others have filled a table.
type RescanAsk struct {
	App     string `kv:"appId,else=1"`
	Region  string `kv:"regionId,else=1"`
	Version int64  `kv:"version,count,omit"` // the greatest one that they have written; 0: none
}

// ClaimAsk asks for a dirty table.
type ClaimAsk struct {
	Table int    `kv:"table,count"`
	Who   string `kv:"who,omit"` // the lander; no two have the same name
}

// TakeAsk asks for a batch.
type TakeAsk struct {
	Table int `kv:"table,count"`
	Limit int `kv:"limit,count,omit"` // of its rows; 0: the settings'
}

// Taken is a batch, or nil if there is nothing to land.
type Taken struct {
	*Batch `kv:"through"`
}

// LandedAsk says what has become of a batch, whose rows are without values.
type LandedAsk struct {
	Fence kv.Revision `kv:"fence"` // of the claim
	Batch
	Failed []Failure `kv:"failed"`
}

// NewerAsk says what version the database has.
type NewerAsk struct {
	Version int64 `kv:"version"`
}

// ReleaseAsk gives a claim back.
type ReleaseAsk struct {
	Table int         `kv:"table,count"`
	Fence kv.Revision `kv:"fence,omit"`
}

// OwnerName is an owner of an app and a region that are known.
type OwnerName struct {
	Logic string `kv:"logicType"`
	ID    string `kv:"ownerId"`
}

// OwnerPage is a page of the owners of one app and region.
type OwnerPage struct {
	Owners []OwnerName `kv:"owners,must"`
	More   bool        `kv:"more"`
	Next   string      `kv:"next,omit"` // what the next page comes after; "": there is none
}

// NewOwnerPage is a page of these, after which next comes.
func NewOwnerPage(list []Owner, next string) *OwnerPage {
	p := &OwnerPage{More: next != "", Next: next}
	for _, o := range list {
		p.Owners = append(p.Owners, OwnerName{o.Logic, o.ID})
	}
	return p
}
