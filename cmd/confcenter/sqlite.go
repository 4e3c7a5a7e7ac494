//go:build !nosqlite

package main

// Of all that a first build compiles, this takes longest.
import _ "confcenter/player/landing/sqlite"
