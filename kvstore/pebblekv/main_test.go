package pebblekv

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
