package access

import (
	"fmt"

	"confcenter/codes"
)

// Held is the cause of an error of codes.Held.
type Held struct {
	Number int64 // by which the change is reviewed
}

func (h *Held) Error() string { return fmt.Sprintf("held as change %d", h.Number) }

// HeldAs is the error for a change that is kept until someone approves it.
func HeldAs(number int64) error {
	return &codes.Error{
		Code: codes.Held, Err: &Held{number},
		Text: fmt.Sprintf("held as change %d: nothing is changed until another person approves it, see confcenter review show %[1]d", number),
	}
}
