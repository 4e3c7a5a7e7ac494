package edge

import (
	"time"

	"confcenter/access"
	"confcenter/access/quota"
	"confcenter/codes"
	"confcenter/internal/admission"
)

// Conn is what the requests of one connection share, which come one after the other.
type Conn struct {
	Place *admission.Place // set at open

	account  *quota.Account // of whom it counts as; nil: no one who is counted
	counted  bool           // it is among the account's connections
	refusals quota.Refusals
}

// Account is that of whom the connection counts as; nil: not known, or no one is counted.
func (c *Conn) Account() *quota.Account { return c.account }

// Enter has the connection count as who its peer has proved to be.
func (c *Conn) Enter(e *Edge, who *access.Identity) error {
	if c.account.Is(who) {
		return nil
	}
	account := e.Quotas.Enter(who)
	if c.counted {
		if err := account.Connect(); err != nil {
			account.Leave()
			return err
		}
		c.account.Disconnect()
	}
	c.account.Leave()
	c.account = account
	return nil
}

// Connect counts it among the connections of whom it counts as, or refuses one too many.
func (c *Conn) Connect() (err error) {
	if !c.counted {
		err = c.account.Connect()
		c.counted = err == nil
	}
	return err
}

// Settle takes a place for the connection, which then need not leave for others.
func (c *Conn) Settle(name string) error {
	settle := c.Place.Settle
	if c.account.Administrator() {
		settle = c.Place.SettleAdministrator
	}
	if err := settle(name); err != nil {
		return &codes.Error{Code: codes.Of(err), Text: codes.Message(err), After: time.Second}
	}
	return nil
}

// Disconnect takes Connect back.
func (c *Conn) Disconnect() {
	if c.counted {
		c.account.Disconnect()
	}
	c.counted = false
}

// Leave ends what Enter and Connect began.
func (c *Conn) Leave() {
	c.Disconnect()
	c.account.Leave()
	c.account = nil
}

// Tire is called after the refusal of a request of an account, and returns how long the connection is not to be
// listened to: 0 unless it is refused again and again.
func (c *Conn) Tire(a *quota.Account, now time.Time) time.Duration { return c.refusals.Tire(a, now) }
