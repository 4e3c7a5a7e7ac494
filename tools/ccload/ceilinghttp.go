package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/spf13/cobra"
)

// bareHandler reads whatever it is asked and answers always the same: with it
// net/http costs what it must, and a real handler is compared with that.
func bareHandler(reply []byte) http.HandlerFunc {
	contentType, noSniff := []string{"application/json"}, []string{"nosniff"}
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the peer is gone
		}
		h := w.Header()
		h["Content-Type"], h["X-Content-Type-Options"] = contentType, noSniff
		_, _ = w.Write(reply)
	}
}

// serveBare serves until ctx ends.
func serveBare(ctx context.Context, ln net.Listener, reply []byte) error {
	s := &http.Server{Handler: bareHandler(reply)}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { closed <- s.Close() })
	defer stop()
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}

// newCeilingHTTP is for bench, so nobody is shown it.
func newCeilingHTTP() *cobra.Command {
	var listen, reply string
	cmd := &cobra.Command{
		Use:     "ceiling-http",
		Short:   "Answer HTTP with always the same, to measure what net/http can give at most",
		Example: `  taskset -c 0 ccload ceiling-http --reply '{"value":"1"}'`,
		Args:    exactArgs(0),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ln, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "listening on %s\n", ln.Addr())
			return serveBare(cmd.Context(), ln, []byte(reply))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&listen, "listen", "l", "127.0.0.1:8081", "address; port 0 takes a free one")
	f.StringVar(&reply, "reply", "{}\n", "body of every reply")
	return cmd
}
