package client

import (
	"context"
	"maps"
	"slices"

	"confcenter/client/internal/connection"
	"confcenter/protocol"
)

// metaFile is the file that assigns main configs.
const metaFile = "_meta.json"

// open connects to addr and identifies the program there, asking for id. The caller must
// close the session.
func (c *Client) open(ctx context.Context, addr string, id int32) (*session, protocol.Identified, error) {
	conn, err := connection.Dial(ctx, addr, connection.Settings{
		TLS: c.cfg.TLS, DialTimeout: c.cfg.DialTimeout, KeepAlive: c.cfg.KeepAlive, KeepAliveTimeout: c.cfg.KeepAliveTimeout,
		MaxBody: c.cfg.MaxBody, Clock: c.cfg.Clock, OnChange: c.pushed, OnGrant: c.granted, Lost: ErrUnreachable,
	})
	if err != nil {
		return nil, protocol.Identified{}, err
	}
	who, err := c.identify(ctx, conn, id)
	if err != nil {
		conn.Close(ErrClosed)
		return nil, who, err
	}
	return &session{conn, addr, who.Epoch}, who, nil
}

// identify sends WHOAMI, for the first time or to look up the main config again.
func (c *Client) identify(ctx context.Context, conn *connection.Conn, id int32) (protocol.Identified, error) {
	frame := protocol.AppendIdentify(begin(protocol.Whoami), protocol.Identify{ID: id, Name: c.cfg.Name, Tag: c.cfg.Tag, Props: c.cfg.Props, Token: c.cfg.Token})
	timer := c.cfg.Clock.NewTimer(c.cfg.DialTimeout)
	defer timer.Stop()
	body, err := conn.Start(protocol.Whoami, protocol.FinishFrame(frame, 0)).Wait(ctx, timer.C())
	who, err := answer(body, err, protocol.ParseIdentified)
	switch {
	case err != nil:
	case who.Code != 0:
		err = refusal(who.Result)
	case who.ID <= 0:
		err = unreadable(&protocol.ReplyError{Member: "svrid"})
	}
	return who, err
}

// adopt makes the answer to a WHOAMI the client's identity and, unless renewed is true,
// sess its session. The error is ErrClosed after Close. An answer on a session that has
// ended is dropped: a newer one has come or will.
func (c *Client) adopt(sess *session, who protocol.Identified, renewed bool) error {
	c.moving.Lock()
	defer c.moving.Unlock()
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return closedError()
	case renewed && c.session != sess:
		c.mu.Unlock()
		return nil
	}
	moved := c.identity.MainConf != who.MainConf
	c.identity = who
	if !renewed {
		c.session, c.down = sess, nil
		c.announceLocked()
	}
	mains := slices.Collect(maps.Keys(c.mains))
	c.mu.Unlock()
	c.cache.storeIdentity(c.cfg.Name, c.cfg.Tag, who)
	if moved {
		for _, w := range mains {
			w.move(who.MainConf)
		}
	}
	return nil
}

// followMeta makes the client look up its main config whenever _meta.json changes, from
// now until Close. It returns when the main config is as current as possible.
func (c *Client) followMeta(ctx context.Context) error {
	if err := c.wait(ctx, c.meta().ready); err != nil || c.ctx.Err() == nil {
		return err
	}
	return closedError() // wait may choose either
}

// renewIdentity looks up the main config again. It gives up only when the session ends,
// since identifying on the next one has the same effect.
func (c *Client) renewIdentity() {
	pause := c.newBackoff()
	for {
		sess, _ := c.state()
		if sess == nil {
			return
		}
		who, err := c.identify(c.ctx, sess.Conn, c.ID())
		if err == nil {
			err = c.adopt(sess, who, true)
		}
		if err == nil || sess.Err() != nil {
			return
		}
		c.report(err)
		if !pause.sleep(c.ctx) {
			return
		}
	}
}
