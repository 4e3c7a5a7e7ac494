// Package suite is what every engine of the state store passes, against the comments of kv.Store and
// kvstore.Engine: a new one gets a line in engines. The suite is tested itself: defects_test.go plants
// one fault after the other in an engine and names the check that finds it. Whether an engine is
// linearizable is judged in integration/linear, where it has to be opened as well.
package suite

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
