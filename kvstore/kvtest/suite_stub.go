package kvtest

var durableChecks, modelChecks, linearChecks []check
