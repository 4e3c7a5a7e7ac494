package main

// Verbs, benchmark groups and the experiments they share (fan-outs, stalls) are
// scripts: long sequences of steps, each of which needs the ones before it. A step
// that fails panics with a failure (check, must), and attempt turns that back into an
// error. The parts of scripts (loop, connections, load, processes) return errors as
// usual.

type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// attempt runs script, then end in any case, and returns the script's failure, if
// any.
func attempt(end, script func()) (err error) {
	defer func() {
		end()
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
