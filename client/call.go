package client

import (
	"context"
	"reflect"

	jsoniter "github.com/json-iterator/go"

	"confcenter/codes"
	"confcenter/protocol"
)

// Call sends a command whose question and answer are structs that are JSON on the way, as
// those of the models of a cluster's state are: see package state/remote, which has a method
// for each. question and answer are pointers to structs; answer may be nil.
//
// A question that only reads is sent again after a lost connection. So is one that writes, if
// it has a field Token: without a token it gets one of its own, in a copy, so that it is
// carried out once.
func (c *Client) Call(ctx context.Context, cmd protocol.Command, writes bool, question, answer any) error {
	body, err := c.call(ctx, cmd, writes, question)
	if err == nil {
		if err = protocol.CheckSuccess(body); err != nil {
			err = unreadable(err)
		} else if answer != nil {
			err = decodeInto(body, answer)
		}
	}
	return err
}

// call returns the reply's body.
func (c *Client) call(ctx context.Context, cmd protocol.Command, writes bool, question any) ([]byte, error) {
	how := again
	if writes {
		own := reflect.New(reflect.TypeOf(question).Elem())
		own.Elem().Set(reflect.ValueOf(question).Elem())
		token := own.Elem().FieldByName("Token")
		how = resendable(token.IsValid())
		if token.IsValid() && token.Len() == 0 {
			token.SetString(c.tokens.next())
		}
		question = own.Interface()
	}
	object, err := jsoniter.ConfigDefault.Marshal(question)
	if err != nil {
		return nil, codes.Errorf(codes.BadRequest, "the question cannot be written as JSON: %w", err)
	}
	if !writes {
		return c.ask(ctx, cmd, append(begin(cmd), object...))
	}
	body, _, err := c.insist(ctx, cmd, append(begin(cmd), object...), how)
	return body, err
}
