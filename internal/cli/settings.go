package cli

import (
	"fmt"
	"github.com/spf13/cobra"

	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/here"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	defaultServer = "http://127.0.0.1:7070"
	maxTokenFile  = 4096
)

// dial makes the client from flags and environment.
func (s *session) dial() (*client.Client, error) {
	server := s.server()
	token, err := s.token(server)
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{
		Server: server, Token: token, Language: s.lang,
		TLSFingerprint: first(s.flags.fingerprint, os.Getenv("FERMI_TLS_FINGERPRINT")),
		UserAgent:      "fermi-cli/" + first(s.build.Version, "dev"),
		Waits: func(server string) {
			fmt.Fprintln(s.cmd.ErrOrStderr(), s.t("Waiting for an answer from %s …", "正在等待 %s 的响应 …", server))
		},
	})
}

// Dial is for commands that live outside this package: the same server and token as every verb.
func Dial(cmd *cobra.Command) (*client.Client, error) { return outside(cmd).dial() }

// Project is the one that such a command means; "" leaves it to the server.
func Project(cmd *cobra.Command) string { return outside(cmd).project(api.KindTrainingTask) }

// Ship packs a folder and sends it, unless the server has it, for such a command, and gives its digest.
func Ship(cmd *cobra.Command, c *client.Client, dir string) (string, error) {
	s := outside(cmd)
	s.client, s.clock = c, clock.Real
	p, err := s.ship(cmd.Context(), dir)
	return p.Digest, err
}

func outside(cmd *cobra.Command) *session {
	flag := func(name string) string {
		if f := cmd.Root().PersistentFlags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return &session{
		flags: &flags{server: flag("server"), tokenFile: flag("token-file"), fingerprint: flag("tls-fingerprint"), project: flag("project")}, cmd: cmd, lang: Language(cmd),
	}
}

// token is --token-file, FERMI_TOKEN, what FERMI_TOKEN_FILE names, or the one `fermi up` left on this machine. The last is
// only ever shown to this machine: a server elsewhere would get the keys of this one.
func (s *session) token(server string) (string, error) {
	if s.flags.tokenFile != "" {
		token, err := readToken(s.flags.tokenFile)
		if err != nil {
			return "", fault.New(fault.Invalid, "BadTokenFile", fault.T(
				"The token file %s can't be read: %s.", "无法读取令牌文件 %s：%s。", s.flags.tokenFile, reasonOf(err))).Because(err)
		}
		return token, nil
	}
	if token := strings.TrimSpace(os.Getenv("FERMI_TOKEN")); token != "" {
		return token, nil
	}
	if pass := here.Token(server); pass != "" {
		return pass, nil
	}
	if !isLocal(server) {
		return "", nil
	}
	token, err := readToken(filepath.Join(dataFolder(), "admin.token"))
	if errors.Is(err, fs.ErrPermission) {
		s.say("The token of the local server belongs to somebody else; set FERMI_TOKEN.", "本机服务器的令牌属于其他用户；请设置 FERMI_TOKEN。")
	}
	return token, nil // without one the server says what is missing
}

func dataFolder() string {
	if dir := os.Getenv("FERMI_DATA"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir() // "": the working directory
	return filepath.Join(home, ".fermi")
}

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxTokenFile {
		return "", errors.New("too long for a token")
	}
	return strings.TrimSpace(string(data)), nil
}

// isLocal says that a server is on this machine's loopback.
func isLocal(server string) bool {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	u, err := url.Parse(server)
	return err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}

// project is the one asked for, or chosen once for all; "" leaves it to the server: the caller's own.
func (s *session) project(kind api.Kind) string {
	if !api.MustInfo(kind).Project {
		return ""
	}
	if asked := s.listed(kind); asked != "" {
		return asked
	}
	return recall().Projects[s.server()]
}

// listed is the project of a list; "" is all that one may see.
func (s *session) listed(kind api.Kind) string {
	if !api.MustInfo(kind).Project {
		return ""
	}
	return first(s.flags.project, os.Getenv("FERMI_PROJECT"))
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// reasonOf is an error's last part, for people: "no such file or directory".
func reasonOf(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}
