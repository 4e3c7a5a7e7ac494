package main

import (
	"errors"

	"confcenter/cmd/confcenter/serving"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
)

// Exit codes are for scripts, and as stable as error codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnreachable = 4
	exitRefused     = 5
	exitDiffers     = 6
	exitHeld        = 7
	exitMayNot      = 8
	exitNothing     = 9
)

const exitCodesHelp = `Exit codes:
  0  success
  1  failure: bad JSON, broken files, a fault of the server, anything not listed below
  2  wrong usage: a flag, argument, environment variable or config file line
  3  no such file, key or lease, or nothing at the path
  4  no server could be reached, or none answered in time
  5  refused by the server: a conflict, an older version, a lock held by another client,
     no right to it, a name, value or size that is not allowed, values that --reveal had
     to leave sealed
  6  apply or rollback with --dry-run: there is something to change
  7  nothing is changed yet: someone else has to approve it, see confcenter review
  8  auth can: they may not
  9  flow claim, bench take-job and bench assign-nodes: nothing waits, or not all nodes that
     the job needs are free`

// errDiffers tells scripts that a dry run would change something.
var errDiffers = errors.New("nothing was changed: this was a dry run")

// errMayNot tells scripts that the answer to auth can is no.
var errMayNot = errors.New("they may not")

// nothing tells scripts that there was nothing to take or to assign.
type nothing string

func (n nothing) Error() string { return string(n) }

// exitCode is the exit code for err.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(verb.UsageError)), errors.As(err, new(serving.Unusable)):
		return exitUsage
	case errors.Is(err, errDiffers):
		return exitDiffers
	case errors.Is(err, errMayNot):
		return exitMayNot
	case errors.As(err, new(nothing)):
		return exitNothing
	}
	switch codes.Of(err) {
	case codes.Held:
		return exitHeld
	case codes.NotFound, codes.NotSubscribed, codes.LeaseGone:
		return exitNotFound
	case codes.Unreachable, codes.Timeout, codes.Closed:
		return exitUnreachable
	case codes.Older, codes.Conflict, codes.BadName, codes.TooLarge, codes.ReadOnly, codes.Limit, codes.Busy,
		codes.BadRequest, codes.NotImplemented, codes.NotIdentified, codes.BadOp,
		codes.BadType, codes.BadValue, codes.BadKey, codes.NameTooLong, codes.TooManyOps, codes.BadTTL, codes.Overflow, codes.OutOfBounds, codes.WrongType,
		codes.FutureRevision, codes.Compacted, codes.TokenReused, codes.FenceLost, codes.Quota, codes.Locked, codes.Unconfirmed, codes.AlreadyExists, codes.InvalidConfig, codes.Forbidden:
		return exitRefused
	}
	return exitFailed
}
