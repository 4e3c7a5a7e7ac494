package main

// A verb and a group of the benchmark are scripts: many steps in a row, none of
// which can go on without those before. Their steps panic with a failure (check,
// must), of which attempt makes an error again. What they are built of, from the
// loop to the fan-out, returns errors as usual.

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

// attempt runs script and returns how it failed, if it did. It calls end after it
// in any case.
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
