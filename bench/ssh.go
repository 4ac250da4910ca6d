package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/test/harness"
)

const (
	sshLogins = 10
	sshKeys   = 1000
	sftpBytes = 1 << 30
	sftpTurns = 2
	sshCipher = "aes128-gcm@openssh.com"
)

// sshBench is a server with an environment, and a machine with OpenSSH's client and server.
type sshBench struct {
	*harness.Cluster
	cl   *client.Client
	dir  string
	port int
}

// benchSSH: how long people wait for shells, and how fast files go over SSH, beside OpenSSH's own server in the same run.
func benchSSH(ctx context.Context, r *report) error {
	kinds.Ship()
	c, cl, err := stand(ctx, "--ssh", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer c.Cleanup()
	b := &sshBench{Cluster: c, cl: cl}
	if b.dir, err = os.MkdirTemp("", "bench-ssh"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := b.enter(ctx); err != nil {
		return err
	}
	var made sample
	for i := range 5 {
		name, cpu := fmt.Sprintf("e%d", i), "100m"
		if i == 0 { // what is measured in it shall not wait for its share of a core: nobody holds OpenSSH's server to one
			cpu = "1"
		}
		begin := time.Now()
		if _, err := b.fermi(ctx, "env", "create", name, "--cpu", cpu, "--memory", "128Mi", "--storage", "4Gi"); err != nil {
			return err
		}
		if out, err := b.fermi(ctx, "env", "shell", name, "--", "echo", "there"); err != nil || !strings.Contains(out, "there") {
			return fmt.Errorf("%s, %w", out, err)
		}
		made = append(made, time.Since(begin))
	}
	fmt.Println("env create → a command in it has ended:", made)
	var prompts, first sample
	for range sshLogins {
		d, err := b.prompt(ctx)
		if err != nil {
			return err
		}
		prompts = append(prompts, d)
	}
	fmt.Println("ssh → prompt:", prompts)
	for i := range sshLogins {
		d, s, err := b.web(ctx, fmt.Sprintf("w%d", i))
		if err != nil {
			return err
		}
		s.Hang()
		first = append(first, d)
	}
	fmt.Println("web terminal → first byte:", first)
	echo, err := b.echo(ctx)
	if err != nil {
		return err
	}
	fmt.Println("echo of a key:", echo)
	ours, theirs, err := b.sftp(ctx)
	if err != nil {
		return err
	}
	fmt.Println("sftp of 1 GiB, ours: ", ours)
	fmt.Println("sftp of 1 GiB, sshd's:", theirs)
	r.atMost("env create to a usable shell, median of 5 [s]", made.quantile(.5).Seconds(), 2).Among(made.seconds())
	r.atMost("prompt over SSH, median of 10 [ms]", ms(prompts.quantile(.5)), 500).Among(prompts.milliseconds())
	r.atMost("first byte of a web terminal, median of 10 [ms]", ms(first.quantile(.5)), 300).Among(first.milliseconds())
	r.atMost("echo of a key through the entrance, p99 [ms]", ms(echo.quantile(.99)), 5)
	r.atLeast("sftp of 1 GiB, of the speed of OpenSSH's own server [%]", 100*theirs.quantile(.5).Seconds()/ours.quantile(.5).Seconds(), 60)
	return nil
}

// enter makes keys known both ways.
func (b *sshBench) enter(ctx context.Context) error {
	d, err := client.SSH(ctx, b.cl)
	if err != nil {
		return err
	}
	b.port = d.Port
	if err := b.run(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(b.dir, "key")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "known"), fmt.Appendf(nil, "[127.0.0.1]:%d %s\n", d.Port, d.HostKey), 0o600); err != nil {
		return err
	}
	_, err = b.fermi(ctx, "user", "key", "add", filepath.Join(b.dir, "key.pub"))
	return err
}

func (b *sshBench) run(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (b *sshBench) fermi(ctx context.Context, args ...string) (string, error) {
	token, err := os.ReadFile(filepath.Join(b.Dir, "admin.token"))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, b.Bin, args...)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+b.Addr, "FERMI_TOKEN="+strings.TrimSpace(string(token)), "FERMI_LANG=en")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("fermi %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func (b *sshBench) options(port int, known string) []string {
	return []string{
		"-F", "/dev/null", "-i", filepath.Join(b.dir, "key"), "-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile=" + filepath.Join(b.dir, known), "-o", "StrictHostKeyChecking=yes",
		"-o", "LogLevel=ERROR", "-o", "Port=" + strconv.Itoa(port), "-c", sshCipher,
	}
}

// prompt is from the start of ssh to the first bytes of a shell that waits for somebody.
func (b *sshBench) prompt(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ssh", append(b.options(b.port, "known"), "-tt", "e0@127.0.0.1")...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	var seen []byte
	for buf := make([]byte, 4096); !bytes.ContainsAny(seen, "$#>"); {
		n, err := out.Read(buf)
		if seen = append(seen, buf[:n]...); err != nil {
			return 0, fmt.Errorf("no prompt in %q: %w", seen, err)
		}
	}
	took := time.Since(begin)
	_, _ = io.WriteString(in, "exit\n")
	_, _ = io.Copy(io.Discard, out)
	return took, cmd.Wait()
}

// web opens a terminal as the console does, and waits for its first byte.
func (b *sshBench) web(ctx context.Context, session string) (time.Duration, *client.Terminal, error) {
	begin := time.Now()
	s, err := client.OpenTerminal(ctx, b.cl, client.TerminalOptions{
		Kind: devenv.Kind, Name: "e0", Wish: terminal.Wish{Session: session, TTY: true, Columns: 80, Rows: 24, Term: "dumb"},
	})
	if err != nil {
		return 0, nil, err
	}
	for {
		data, _, _, err := s.Receive(ctx)
		if err != nil || len(data) > 0 {
			return time.Since(begin), s, err
		}
	}
}

// echo types keys one after the other, each when the one before was seen.
func (b *sshBench) echo(ctx context.Context) (out sample, err error) {
	_, s, err := b.web(ctx, "echo")
	if err != nil {
		return nil, err
	}
	defer s.Hang()
	seen := func(text string) error {
		for got := []byte(nil); ; {
			data, _, _, err := s.Receive(ctx)
			if got = append(got, data...); err != nil || bytes.Contains(got, []byte(text)) {
				return err
			}
		}
	}
	key := func(text string) error {
		if err := s.Write(ctx, []byte(text)); err != nil {
			return err
		}
		return seen(text)
	}
	// The kernel's own echo, not that of a shell which draws its line: the mark is put together by sh, right before it becomes cat.
	if err := s.Write(ctx, []byte("exec sh -c 'stty sane; printf %s%s ready now; exec cat >/dev/null'\n")); err != nil {
		return nil, err
	}
	if err := seen("readynow"); err != nil {
		return nil, err
	}
	for i := range sshKeys {
		begin := time.Now()
		if err := key(string(rune('a' + i%26))); err != nil {
			return nil, err
		}
		out = append(out, time.Since(begin))
		if i%60 == 59 { // a terminal takes lines of a bounded length
			if err := key("\n"); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// sftp fetches a file from the environment and from OpenSSH's own server, in turn.
func (b *sshBench) sftp(ctx context.Context) (ours, theirs sample, err error) {
	if _, err := b.fermi(ctx, "env", "shell", "e0", "--", "sh", "-c", "head -c "+strconv.Itoa(sftpBytes)+" /dev/urandom > file"); err != nil {
		return nil, nil, err
	}
	file := filepath.Join(b.dir, "file")
	if err := b.run(ctx, "sh", "-c", "head -c "+strconv.Itoa(sftpBytes)+" /dev/urandom > "+file); err != nil {
		return nil, nil, err
	}
	port, stop, err := b.sshd(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	for range sftpTurns {
		for _, t := range []struct {
			options []string
			from    string
			to      *sample
		}{{b.options(b.port, "known"), "e0@127.0.0.1:file", &ours}, {b.options(port, "known-sshd"), "root@127.0.0.1:" + file, &theirs}} {
			got := filepath.Join(b.dir, "got")
			begin := time.Now()
			if err := b.run(ctx, slices.Concat([]string{"sftp", "-q"}, t.options, []string{t.from, got})...); err != nil {
				return nil, nil, err
			}
			*t.to = append(*t.to, time.Since(begin))
			info, err := os.Stat(got)
			if err != nil || info.Size() != sftpBytes {
				return nil, nil, fmt.Errorf("fetched %v, %w", info, err)
			}
			if err := os.Remove(got); err != nil {
				return nil, nil, err
			}
		}
	}
	return ours, theirs, nil
}

// sshd starts OpenSSH's server for our key.
func (b *sshBench) sshd(ctx context.Context) (port int, stop func(), err error) {
	key := filepath.Join(b.dir, "host")
	if err := b.run(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key); err != nil {
		return 0, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	port = l.Addr().(*net.TCPAddr).Port
	pub, err := os.ReadFile(key + ".pub")
	if err = errors.Join(err, l.Close(), os.MkdirAll("/run/sshd", 0o755)); err != nil {
		return 0, nil, err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "known-sshd"), fmt.Appendf(nil, "[127.0.0.1]:%d %s", port, pub), 0o600); err != nil {
		return 0, nil, err
	}
	cmd := exec.CommandContext(ctx, "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-h", key, "-p", strconv.Itoa(port), "-o", "ListenAddress=127.0.0.1", "-o", "AuthorizedKeysFile="+filepath.Join(b.dir, "key.pub"),
		"-o", "StrictModes=no", "-o", "PermitRootLogin=prohibit-password", "-o", "Subsystem=sftp internal-sftp", "-o", "PidFile=none", "-o", "UsePAM=no")
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, stop, c.Close()
		}
		if time.Since(begin) > 10*time.Second {
			stop()
			return 0, nil, fmt.Errorf("sshd does not answer: %w", err)
		}
	}
}
