package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fermi-cluster/fermi/internal/cli/download"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// lockFlags say how a backup is encrypted (age): to keys that others hold, or with a passphrase. A passphrase is
// never an argument, where every process of the machine could read it.
type lockFlags struct {
	encrypt    bool
	recipients []string
	files      []string
	passphrase string // file
}

func (f *lockFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.encrypt, "encrypt", false, Both("encrypt with age: to --recipient keys, or with a passphrase", "用 age 加密：使用 --recipient 公钥或口令"))
	flags.StringArrayVar(&f.recipients, "recipient", nil, Both("public key (age1…) that can open it; may be repeated", "可解密的公钥（age1…），可重复"))
	flags.StringArrayVar(&f.files, "recipients-file", nil, Both("file with such keys, one a line", "公钥文件，每行一个"))
	flags.StringVar(&f.passphrase, "passphrase-file", "", Both("file with a passphrase, or /dev/fd/N; asked for on a terminal otherwise", "口令文件，或 /dev/fd/N；否则在终端询问"))
}

// keys are whom to encrypt to; none when nothing was asked for.
func (f *lockFlags) keys(s *session) ([]age.Recipient, error) {
	named := len(f.recipients)+len(f.files) > 0
	switch {
	case !f.encrypt && !named && f.passphrase == "":
		return nil, nil
	case named && f.passphrase != "":
		return nil, usage(s.cmd, fault.T("Give keys or a passphrase, not both: age does not mix them.", "公钥与口令只能选择其一，age 不支持混用。"))
	case !named:
		phrase, err := Passphrase(s.in, s.err, f.passphrase, true, s.lang)
		if err != nil {
			return nil, err
		}
		r, err := age.NewScryptRecipient(phrase)
		return []age.Recipient{r}, err
	}
	var out []age.Recipient
	add := func(r io.Reader, from string) error {
		keys, err := age.ParseRecipients(r)
		if err != nil {
			return fault.New(fault.Invalid, "BadRecipient", fault.T("%s is no public key of age; one looks like age1….", "%s 不是 age 公钥；公钥形如 age1…。", from)).
				WithHint(fault.T("`age-keygen -o key.txt` makes a pair and prints the public key.", "用 `age-keygen -o key.txt` 生成密钥对并显示公钥。")).Because(err)
		}
		out = append(out, keys...)
		return nil
	}
	for _, key := range f.recipients {
		if strings.HasPrefix(strings.ToUpper(key), "AGE-SECRET-KEY-") {
			return nil, fault.New(fault.Invalid, "BadRecipient", fault.T("--recipient got a secret key. It is in your shell's history now: make a new pair, and give the public key (age1…).",
				"--recipient 收到的是私钥，且已进入命令历史：请重新生成密钥对，并给出公钥（age1…）。"))
		}
		if err := add(strings.NewReader(key), fmt.Sprintf("%.40q", key)); err != nil {
			return nil, err
		}
	}
	for _, path := range f.files {
		f, err := os.Open(path)
		if err != nil {
			return nil, badFile(path, err)
		}
		err = add(f, path)
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

const (
	maxPassphrase   = 4096
	leastPassphrase = 8 // characters
)

// Passphrase is read from a file, or asked for on a terminal; twice where a mistake would lose something.
func Passphrase(in io.Reader, out io.Writer, path string, twice bool, lang string) (string, error) {
	var phrase string
	if path != "" {
		f, err := os.Open(path)
		if err != nil {
			return "", badFile(path, err)
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, maxPassphrase+1))
		if err != nil {
			return "", badFile(path, err)
		}
		phrase = strings.TrimRight(string(raw), "\r\n")
	} else {
		f, ok := in.(*os.File)
		if !ok || !term.IsTerminal(int(f.Fd())) {
			return "", fault.New(fault.Invalid, "NoPassphrase", fault.T("There is no terminal to ask for a passphrase on.", "没有可用于询问口令的终端。")).
				WithHint(fault.T("Give --passphrase-file FILE, or a key.", "请用 --passphrase-file FILE 或密钥。"))
		}
		ask := func(en, zh string) (string, error) {
			fmt.Fprint(out, fault.Text{EN: en, ZH: zh}.In(lang))
			raw, err := term.ReadPassword(int(f.Fd()))
			fmt.Fprintln(out)
			return string(raw), err
		}
		var err error
		if phrase, err = ask("Passphrase: ", "口令："); err != nil {
			return "", fault.From(err)
		}
		if twice {
			again, err := ask("Once more: ", "再次输入：")
			if err != nil {
				return "", fault.From(err)
			}
			if again != phrase {
				return "", fault.New(fault.Invalid, "PassphrasesDiffer", fault.T("The two are not the same.", "两次输入不一致。"))
			}
		}
	}
	switch {
	case len(phrase) > maxPassphrase || strings.ContainsAny(phrase, "\n\x00"):
		return "", fault.New(fault.Invalid, "BadPassphrase", fault.T("A passphrase is one line.", "口令应为一行。"))
	case twice && len([]rune(phrase)) < leastPassphrase || phrase == "":
		return "", fault.New(fault.Invalid, "BadPassphrase", fault.T("The passphrase is too short: at least %d characters.", "口令过短：至少 %d 个字符。", leastPassphrase))
	}
	return phrase, nil
}

// ageMark begins every file of age.
const ageMark = "age-encryption.org/v1\n"

// Unlock gives the backup in r: as it is, or decrypted. identities is a file of age; without one a passphrase is
// taken from ask. A file that was cut or changed ends with an error instead of io.EOF.
func Unlock(r io.Reader, identities string, ask func() (string, error)) (io.Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(len(ageMark))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(head, []byte(ageMark)) {
		if identities != "" {
			return nil, fault.New(fault.Invalid, "NotEncrypted", fault.T("This backup is not encrypted; leave out --identity.", "该备份未加密，请去掉 --identity。"))
		}
		return in, nil
	}
	var keys []age.Identity
	if identities != "" {
		f, err := os.Open(identities)
		if err != nil {
			return nil, badFile(identities, err)
		}
		keys, err = age.ParseIdentities(f)
		f.Close()
		if err != nil {
			return nil, fault.New(fault.Invalid, "BadIdentity", fault.T("%s holds no secret key of age.", "%s 中没有 age 私钥。", identities)).Because(err)
		}
	} else {
		phrase, err := ask()
		if err != nil {
			return nil, err
		}
		key, err := age.NewScryptIdentity(phrase)
		if err != nil {
			return nil, err
		}
		keys = []age.Identity{key}
	}
	plain, err := age.Decrypt(in, keys...)
	if err != nil {
		return nil, fault.New(fault.Forbidden, "WrongKey", fault.T("The backup does not open with this key or passphrase; nothing was changed.", "该密钥或口令无法解密备份，未做任何改动。")).
			WithHint(fault.T("A backup to a --recipient needs --identity FILE; one with a passphrase needs that.", "以 --recipient 加密的备份需要 --identity FILE；以口令加密的需要口令。")).Because(err)
	}
	return plain, nil
}

func (a *app) backupCommand() *cobra.Command {
	var lock lockFlags
	cmd := &cobra.Command{
		Use: "backup FILE", Short: Both("Save the server's whole state into a file", "将服务器全部状态备份到文件"),
		Args: needArgs(1, 1, "FILE"), Example: "  fermi backup fermi-backup.tar\n  fermi backup --encrypt --recipient age1… fermi-backup.tar.age",
	}
	lock.bind(cmd)
	cmd.RunE = a.online(func(ctx context.Context, s *session, args []string) error {
		keys, err := lock.keys(s)
		if err != nil {
			return err
		}
		body, err := s.client.Backup(ctx)
		if err != nil {
			return err
		}
		defer body.Close()
		// The whole way is one pipe: nothing is on disk in the clear.
		send := func(w io.Writer) (int64, error) {
			if len(keys) == 0 {
				n, err := copyProgress(ctx, s, w, body, -1, s.t("backup", "备份"))
				return n, download.CutShort(err)
			}
			locked, err := age.Encrypt(w, keys...)
			if err != nil {
				return 0, err
			}
			n, err := copyProgress(ctx, s, locked, body, -1, s.t("backup", "备份"))
			if err != nil {
				return n, download.CutShort(err) // without its end nobody takes it for whole
			}
			return n, locked.Close()
		}
		if args[0] == "-" {
			_, err := send(s.out)
			return err
		}
		// The state holds secrets: nobody else may read it.
		n, err := saveFile(args[0], 0o600, func(f *os.File) (int64, error) { return send(f) })
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			s.say("Saved %s to %s, encrypted.", "已保存 %s 到 %s（已加密）。", size(n), args[0])
		} else {
			s.say("Saved %s to %s.", "已保存 %s 到 %s。", size(n), args[0])
		}
		s.say("It does not hold secret.key, which opens the secrets in it: keep a copy of that file from the server's data folder in another place. Without it they must be set again.",
			"备份不含 secret.key（用于解开其中的密钥）：请将服务器数据目录中的该文件另行妥善保存；缺少它，恢复后须重新设置密钥。")
		return nil
	})
	return cmd
}
