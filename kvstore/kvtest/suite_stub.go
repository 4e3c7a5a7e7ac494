package kvtest

var watchChecks, durableChecks, modelChecks, linearChecks []check
