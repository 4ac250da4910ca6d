package sftpserver

import (
	"errors"
	"io"
	"os"

	"github.com/pkg/sftp"
	"github.com/spf13/cobra"
)

// Command is what the launcher starts; people don't.
func Command(both func(en, zh string) string) *cobra.Command {
	return &cobra.Command{
		Use: "sftp-server", Hidden: true, Short: both("Serve files over sftp (started by the launcher)", "通过 sftp 提供文件（由启动器启动）"), Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return Serve(os.Stdin, os.Stdout) },
	}
}

// Serve answers until the input ends.
func Serve(in io.Reader, out io.WriteCloser) error {
	s, err := sftp.NewServer(struct {
		io.Reader
		io.WriteCloser
	}{in, out}, sftp.WithAllocator())
	if err != nil {
		return err
	}
	err = s.Serve()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, s.Close())
}
