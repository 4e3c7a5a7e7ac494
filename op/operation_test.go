package op_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/op"
)

type counter struct{ n int64 }

type addAsk struct {
	By int64 `json:"by" doc:"how many"`
}

type sum struct {
	N int64 `json:"n" doc:"how many there are"`
}

func (c *counter) add(_ context.Context, by *access.Actor, q *addAsk) (*sum, error) {
	if by == nil {
		return nil, codes.Errorf(codes.BadRequest, "who asks?")
	}
	c.n += q.By
	return &sum{c.n}, nil
}

func TestOperationsAreAskedByTheirTable(t *testing.T) {
	o := op.Define("add", access.KVWrite, "POST add", "adds", (*counter).add)
	require.Equal(t, "addAsk", o.Question().Name())
	require.Equal(t, "sum", o.Answer().Name())
	c := &counter{n: 1}
	q := o.Ask()
	q.(*addAsk).By = 2
	_, err := o.Do(context.Background(), c, nil, q)
	require.Error(t, err)
	got, err := o.Do(context.Background(), c, &access.Actor{}, q)
	require.NoError(t, err)
	require.Equal(t, &sum{3}, got)
}
