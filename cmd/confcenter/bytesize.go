package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// byteSize is a flag for a number of bytes, with or without one of byteUnits.
type byteSize int64

var _ pflag.Value = (*byteSize)(nil)

var byteUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// Set takes text like 512MiB or 1048576.
func (b *byteSize) Set(text string) error {
	for _, unit := range byteUnits {
		number, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/unit.bytes {
			break
		}
		*b = byteSize(n * unit.bytes)
		return nil
	}
	return fmt.Errorf("must be a number of bytes like 1048576, 512MiB or 4GiB")
}

// String is the size in the largest unit that divides it.
func (b *byteSize) String() string {
	n := int64(*b)
	for _, unit := range byteUnits {
		if n >= unit.bytes && n%unit.bytes == 0 && unit.bytes > 1 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// Type is how help shows the flag's argument.
func (b *byteSize) Type() string { return "size" }
