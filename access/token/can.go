package token

import (
	"context"
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
)

// CanAsk asks what an identity may do.
type CanAsk struct {
	Name   string   `json:"name" arg:"1" doc:"who, as roles have it: token:NAME, cert:SUBJECT, person:ADDRESS or listener:NAME"`
	Verb   string   `json:"verb" arg:"2" doc:"such as read"`
	What   string   `json:"what" arg:"3" doc:"such as config:game/a.json, or a class without names, such as log"`
	Groups []string `json:"groups,omitempty" doc:"that they belong to; of a token, without any: its own"`
}

// CanAnswer is a decision.
type CanAnswer struct {
	Allowed bool     `json:"allowed" doc:"whether they may"`
	Groups  []string `json:"groups,omitempty" doc:"that they were taken to belong to"`
	Rules   []Reason `json:"rules" doc:"those that decided; none if nothing allows it"`
	Trouble string   `json:"trouble,omitempty" doc:"which roles are broken, and what follows from it; absent: none is"`
}

// Reason is a rule that had a say.
type Reason struct {
	Rule string `json:"rule" doc:"the role, and which of its rules"`
	What string `json:"what" doc:"the pattern, as the role has it"`
	Says string `json:"says" doc:"allow or deny"`
}

// Can explains a decision of access control.
func (t *Tokens) Can(ctx context.Context, _ *access.Actor, q *CanAsk) (*CanAnswer, error) {
	if err := policy.CheckIdentity(q.Name); err != nil {
		return nil, err
	}
	verb, err := policy.ParseVerb(q.Verb)
	if err != nil {
		return nil, err
	}
	if verb == policy.All {
		return nil, codes.Errorf(codes.BadRequest, "ask about one verb at a time; there are %s", policy.All)
	}
	class, name, err := thing(q.What)
	if err != nil {
		return nil, err
	}
	if verb&class.Verbs() == 0 {
		return nil, codes.Errorf(codes.BadRequest, "nothing in %s can be done by %s; there are %s", class, verb, class.Verbs())
	}
	judge := t.judge.Load()
	if judge == nil {
		return nil, codes.Errorf(codes.NotImplemented, "this server has no access control: everyone may do everything; start it with --access-control")
	}
	answer := &CanAnswer{}
	if answer.Groups, err = t.groupsOf(ctx, q.Name, q.Groups); err != nil {
		return nil, err
	}
	d := (*judge).Explain(&access.Identity{Name: policy.Fold(q.Name), Groups: answer.Groups}, verb, class, name)
	answer.Allowed, answer.Trouble = d.Allowed, d.Trouble
	for _, r := range d.By {
		says := "allow"
		if r.Deny {
			says = "deny"
		}
		answer.Rules = append(answer.Rules, Reason{Rule: r.Rule, What: r.What, Says: says})
	}
	return answer, nil
}

// thing reads one thing that a role could be about.
func thing(text string) (class policy.Class, name string, err error) {
	text, rest, named := strings.Cut(text, ":")
	if class, err = policy.ParseClass(text); err != nil || !named {
		return class, "", err
	}
	name, err = policy.ParseName(class, rest)
	return class, name, err
}

// groupsOf are the groups that are given, or if none are, those of the first token of that name.
func (t *Tokens) groupsOf(ctx context.Context, identity string, given []string) ([]string, error) {
	name, isToken := strings.CutPrefix(identity, policy.ByToken)
	if given != nil || !isToken {
		return given, nil
	}
	for there, err := range t.all(ctx) {
		if err != nil || there.Name == name {
			return there.Groups, err
		}
	}
	return nil, nil
}
