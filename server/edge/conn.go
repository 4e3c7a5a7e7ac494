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
	Place   *admission.Place // set at open
	Account *quota.Account   // of whom it counts as, see Enter; nil: no one who is counted

	counted  bool // it is among the account's connections
	refusals quota.Refusals
}

// Enter has the connection count as who its peer has proved to be.
func (c *Conn) Enter(e *Edge, who *access.Identity) error {
	if c.Account.Is(who) {
		return nil
	}
	account := e.Quotas.Enter(who)
	if c.counted {
		if err := account.Connect(); err != nil {
			account.Leave()
			return err
		}
		c.Account.Disconnect()
	}
	c.Account.Leave()
	c.Account = account
	return nil
}

// Connect counts it among the connections of whom it counts as, or refuses one too many.
func (c *Conn) Connect() (err error) {
	if !c.counted {
		err = c.Account.Connect()
		c.counted = err == nil
	}
	return err
}

// Settle connects, and takes a place for the connection, which then need not leave for others.
func (c *Conn) Settle(name string) error {
	if err := c.Connect(); err != nil {
		return err
	}
	settle := c.Place.Settle
	if c.Account.Administrator() {
		settle = c.Place.SettleAdministrator
	}
	if err := settle(name); err != nil {
		c.disconnect()
		return &codes.Error{Code: codes.Of(err), Text: codes.Message(err), After: time.Second}
	}
	return nil
}

// disconnect takes Connect back.
func (c *Conn) disconnect() {
	if c.counted {
		c.Account.Disconnect()
	}
	c.counted = false
}

// Leave ends what Enter and Connect began.
func (c *Conn) Leave() {
	c.disconnect()
	c.Account.Leave()
	c.Account = nil
}

// Backoff is called after each refusal, and returns how long no one is to listen to the connection; 0: go on.
func (c *Conn) Backoff(a *quota.Account, now time.Time) time.Duration {
	return c.refusals.Backoff(a, now)
}
