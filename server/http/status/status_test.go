package status

import (
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// What /v1/status shows has to be there under its metric's name.
func TestStatusNamesMetrics(t *testing.T) {
	text, err := os.ReadFile("../testdata/metrics.txt")
	require.NoError(t, err)
	for _, body := range []any{Body{}, httpBody{}, storeBody{}, configBody{}, moment{}} {
		for i := range reflect.TypeOf(body).NumField() {
			if name := reflect.TypeOf(body).Field(i).Tag.Get("metric"); name != "" {
				require.Contains(t, string(text), "\n"+prefix+name+" ")
			}
		}
	}
}
