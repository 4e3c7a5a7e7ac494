package loop

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/metric"
)

// A counter without a name would be told to no one.
func TestEveryCounterHasAName(t *testing.T) {
	require.Len(t, metric.Of(&Counters{}), reflect.TypeFor[Counters]().NumField())
}
