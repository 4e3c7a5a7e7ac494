package main

// The databases that landing can use, with that of sqlite.go.
import (
	_ "confcenter/player/landing/mysql"
	_ "confcenter/player/landing/postgres"
)
