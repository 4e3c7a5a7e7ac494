package main

// The databases that landing can use, with that of sqlite.go.
import (
	_ "confcenter/storage/landing/mysql"
	_ "confcenter/storage/landing/postgres"
)
