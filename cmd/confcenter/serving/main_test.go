package serving

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// The event loop's library starts goroutines when it is imported; they are no leak of a test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }
