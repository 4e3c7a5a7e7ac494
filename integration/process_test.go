package integration

// binaryDir is where the binary under test is built; empty until then.
var binaryDir string
