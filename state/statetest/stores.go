//go:build !race || soak

package statetest

const onlyWire = false

// stores are the kinds that tests run on: near, or not.
var stores = []bool{true, false}
