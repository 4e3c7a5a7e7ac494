package main

import "errors"

// The benchmark is a script: a long sequence of steps, each of which needs the ones before it.
// A step that fails panics with a failure (check, must), and attempt turns that back into an
// error.

type failure struct{ error }

var errTimeout = errors.New("timed out")

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// attempt runs script and returns its failure, if any.
func attempt(script func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	script()
	return nil
}
