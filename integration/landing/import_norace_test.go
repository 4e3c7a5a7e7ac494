//go:build !race

package landing_test

import (
	"testing"

	"confcenter/player/landing/landingtest"
)

func TestAnInterruptedImportGoesOnWhereItWas(t *testing.T) {
	landingtest.AnInterruptedImportGoesOnWhereItWas(t, servers...)
}
