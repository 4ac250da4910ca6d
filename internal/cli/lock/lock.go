package lock

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// LockFlags say how a backup is encrypted (age): to keys that others hold, or with a passphrase. A passphrase is
// never an argument, where every process of the machine could read it.
type LockFlags struct {
	encrypt    bool
	recipients []string
	files      []string
	passphrase string // file
}

func (f *LockFlags) Bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.encrypt, "encrypt", false, speech.Both("encrypt with age: to --recipient keys, or with a passphrase", "用 age 加密：使用 --recipient 公钥或口令"))
	flags.StringArrayVar(&f.recipients, "recipient", nil, speech.Both("public key (age1…) that can open it; may be repeated", "可解密的公钥（age1…），可重复"))
	flags.StringArrayVar(&f.files, "recipients-file", nil, speech.Both("file with such keys, one a line", "公钥文件，每行一个"))
	flags.StringVar(&f.passphrase, "passphrase-file", "", speech.Both("file with a passphrase, or /dev/fd/N; asked for on a terminal otherwise", "口令文件，或 /dev/fd/N；否则在终端询问"))
}

// Keys are whom to encrypt to; none when nothing was asked for.
func (f *LockFlags) Keys(s *call.Session) ([]age.Recipient, error) {
	named := len(f.recipients)+len(f.files) > 0
	switch {
	case !f.encrypt && !named && f.passphrase == "":
		return nil, nil
	case named && f.passphrase != "":
		return nil, usage.Wrong(s.Cmd, fault.T("Give keys or a passphrase, not both: age does not mix them.", "公钥与口令只能选择其一，age 不支持混用。"))
	case !named:
		phrase, err := Passphrase(s.In, s.Err, f.passphrase, true, s.Lang)
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
			return nil, call.BadFile(path, err)
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
			return "", call.BadFile(path, err)
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, maxPassphrase+1))
		if err != nil {
			return "", call.BadFile(path, err)
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

// AgeMark begins every file of age.
const AgeMark = "age-encryption.org/v1\n"

// Unlock gives the backup in r: as it is, or decrypted. identities is a file of age; without one a passphrase is
// taken from ask. A file that was cut or changed ends with an error instead of io.EOF.
func Unlock(r io.Reader, identities string, ask func() (string, error)) (io.Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(len(AgeMark))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(head, []byte(AgeMark)) {
		if identities != "" {
			return nil, fault.New(fault.Invalid, "NotEncrypted", fault.T("This backup is not encrypted; leave out --identity.", "该备份未加密，请去掉 --identity。"))
		}
		return in, nil
	}
	var keys []age.Identity
	if identities != "" {
		f, err := os.Open(identities)
		if err != nil {
			return nil, call.BadFile(identities, err)
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
