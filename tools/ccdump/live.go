package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"confcenter/tools/ccdump/capture"
)

// defaultPort is where a server listens by default.
const defaultPort = 4800

func newLive() *cobra.Command {
	var o options
	var name, write string
	cmd := &cobra.Command{
		Use:   "live",
		Short: "Capture on an interface and print each frame; needs root",
		Long: `Capture on an interface, as root or with CAP_NET_RAW, until interrupted. Without
either use ` + "`ccdump tap`" + `, or let someone else capture and give ccdump the file.`,
		Example: `  ccdump live --interface lo
  ccdump live --interface eth0 --port 4800 --write odd.pcapng`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.ports) == 0 {
				o.ports = []int{defaultPort}
			}
			return live(cmd, &o, name, write)
		},
	}
	o.bind(cmd)
	cmd.Flags().Lookup("port").Usage = fmt.Sprintf("the server's port; may be repeated; 0: any (default %d)", defaultPort)
	cmd.Flags().StringVarP(&name, "interface", "i", "lo", "interface to capture on")
	cmd.Flags().StringVar(&write, "write", "", "also write the packets to this file, as pcapng")
	return cmd
}

func live(cmd *cobra.Command, o *options, name, write string) error {
	v := newLines(o, cmd.OutOrStdout())
	src, err := capture.Listen(cmd.Context(), name, v.flush)
	if err != nil {
		return err
	}
	defer src.Close()
	save, closeFile, err := saveTo(write, src.Link)
	if err != nil {
		return err
	}
	seen := func(rec *capture.Record, wanted bool) error {
		// Nothing else may check the time, and a steady trickle must show up too.
		if rec.At-v.flushed > flushEvery {
			v.flushed = rec.At
			v.flush()
		}
		if !wanted {
			return nil
		}
		return save(rec)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: capturing on %s, port %v; interrupt to end\n", cmd.CommandPath(), name, o.ports)
	err = v.pump(cmd.Context(), src, seen)
	if n := src.Dropped(); n > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: the kernel dropped %d packets that came too fast\n", cmd.CommandPath(), n)
	}
	v.tell(cmd)
	return errors.Join(err, closeFile())
}

// saveTo opens a file for packets. Without a name they go nowhere.
func saveTo(name string, link capture.Link) (save func(*capture.Record) error, closeFile func() error, err error) {
	if name == "" {
		return func(*capture.Record) error { return nil }, func() error { return nil }, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, nil, err
	}
	w, err := capture.NewWriter(file, link)
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return w.Write, func() error { return errors.Join(w.Flush(), file.Close()) }, nil
}
