package call

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
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	DefaultServer = "http://127.0.0.1:7070"
	maxTokenFile  = 4096
)

// Dial makes the client from flags and environment.
func (s *Session) Dial() (*client.Client, error) {
	server := s.Server()
	token, err := s.token(server)
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{
		Server: server, Token: token, Language: s.Lang,
		TLSFingerprint: First(s.Flags.Fingerprint, os.Getenv("FERMI_TLS_FINGERPRINT")),
		UserAgent:      "fermi-cli/" + First(s.build.Version, "dev"),
		Waits: func(server string) {
			fmt.Fprintln(s.Cmd.ErrOrStderr(), s.T("Waiting for an answer from %s …", "正在等待 %s 的响应 …", server))
		},
	})
}

func Outside(cmd *cobra.Command) *Session {
	flag := func(name string) string {
		if f := cmd.Root().PersistentFlags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return &Session{
		Flags: &Flags{Server: flag("server"), TokenFile: flag("token-file"), Fingerprint: flag("tls-fingerprint"), Project: flag("project"), Output: flag("output")}, Cmd: cmd, Lang: speech.Language(cmd),
		Out: cmd.OutOrStdout(),
	}
}

// token is --token-file, FERMI_TOKEN, what FERMI_TOKEN_FILE names, or the one `fermi up` left on this machine. The last is
// only ever shown to this machine: a server elsewhere would get the keys of this one.
func (s *Session) token(server string) (string, error) {
	if s.Flags.TokenFile != "" {
		token, err := readToken(s.Flags.TokenFile)
		if err != nil {
			return "", fault.New(fault.Invalid, "BadTokenFile", fault.T(
				"The token file %s can't be read: %s.", "无法读取令牌文件 %s：%s。", s.Flags.TokenFile, ReasonOf(err))).Because(err)
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
		s.Say("The token of the local server belongs to somebody else; set FERMI_TOKEN.", "本机服务器的令牌属于其他用户；请设置 FERMI_TOKEN。")
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

// Project is the one asked for, or chosen once for all; "" leaves it to the server: the caller's own.
func (s *Session) Project(kind api.Kind) string {
	if !api.MustInfo(kind).Project {
		return ""
	}
	if asked := s.Listed(kind); asked != "" {
		return asked
	}
	return Recall().Projects[s.Server()]
}

// Listed is the project of a list; "" is all that one may see.
func (s *Session) Listed(kind api.Kind) string {
	if !api.MustInfo(kind).Project {
		return ""
	}
	return First(s.Flags.Project, os.Getenv("FERMI_PROJECT"))
}

func First(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// ReasonOf is an error's last part, for people: "no such file or directory".
func ReasonOf(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}
