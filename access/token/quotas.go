package token

import (
	"context"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/quota"
	"confcenter/codes"
)

// QuotasAsk asks what an identity, or a namespace, may have.
type QuotasAsk struct {
	Name   string   `json:"name" arg:"1" doc:"who, as roles have it, such as token:game-1, or a namespace: kv:NAMESPACE, storage:APP/REGION, flow:SCOPE or bench"`
	Groups []string `json:"groups,omitempty" doc:"that they belong to; of a token, without any: its own"`
}

// QuotasAnswer is what they may have, and what they use.
type QuotasAnswer struct {
	Quotas []QuotaUse `json:"quotas" doc:"a line for each limit that there can be"`
}

// QuotaUse is one limit.
type QuotaUse struct {
	Limit string `json:"limit" doc:"its name, as roles have it"`
	Used  int64  `json:"used" doc:"how much of it there is; of requests and bytes, which are limited by the second: 0"`
	Most  int64  `json:"most,omitempty" doc:"how much of it there may be; 0: any amount"`
	Quota string `json:"quota,omitempty" doc:"the role that says so, and which of its quotas"`
}

// Count has [Tokens.Quotas] tell what b counts.
func (t *Tokens) Count(b *quota.Book) { t.book.Store(b) }

// Quotas tells what an identity, or a namespace, may have and uses.
func (t *Tokens) Quotas(ctx context.Context, _ *access.Actor, q *QuotasAsk) (*QuotasAnswer, error) {
	book, namespace, err := t.book.Load(), "", error(nil)
	if policy.CheckIdentity(q.Name) != nil {
		if namespace, err = quota.NamespaceOf(q.Name); err != nil {
			return nil, err
		}
	}
	if book == nil {
		return nil, codes.Errorf(codes.NotImplemented, "this server has no access control, and no quotas; start it with --access-control")
	}
	var uses []quota.Use
	if namespace != "" {
		uses = book.UseOf(namespace)
	} else {
		groups, err := t.groupsOf(ctx, q.Name, q.Groups)
		if err != nil {
			return nil, err
		}
		uses = book.Use(&access.Identity{Name: policy.Fold(q.Name), Groups: groups})
	}
	answer := new(QuotasAnswer)
	for _, u := range uses {
		answer.Quotas = append(answer.Quotas, QuotaUse{Limit: u.Limit.String(), Used: u.N, Most: u.Most, Quota: u.By})
	}
	return answer, nil
}
