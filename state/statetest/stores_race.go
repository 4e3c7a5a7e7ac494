//go:build race && !soak

package statetest

const onlyWire = true

// stores are the kinds that tests run on: near, or not.
var stores = []bool{true}
