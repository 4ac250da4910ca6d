package v1

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// SecretType says what a secret is for, and so which keys it has.
type SecretType string

// The types of secrets.
const (
	SecretOpaque   SecretType = "opaque"   // any keys
	SecretGit      SecretType = "git"      // for spec.code.git.secret
	SecretRegistry SecretType = "registry" // an account at a registry of images
	SecretS3       SecretType = "s3"       // an account at an object store
)

// Keys of the typed secrets.
const (
	KeyUsername        = "username"
	KeyPassword        = "password"
	KeySSHPrivateKey   = "ssh-privatekey"
	KeySSHKnownHosts   = "known_hosts"
	KeyServer          = "server"
	KeyAccessKeyID     = "accessKeyID"
	KeySecretAccessKey = "secretAccessKey"
	KeySessionToken    = "sessionToken"
	KeyEndpoint        = "endpoint"
	KeyRegion          = "region"
)

// secretField is what a type says about one key.
type secretField struct {
	key    string
	needed bool
	public bool                    // may be seen: it tells where and who, not the way in
	check  func(string) fault.Text // nil: anything; the answer is zero when it may be used
}

// secretTypes is the table of types. Which of git's keys are needed depends on the others.
var secretTypes = map[SecretType][]secretField{
	SecretOpaque: nil,
	SecretGit: {
		{KeyUsername, false, true, checkUsername}, {KeyPassword, false, false, checkOneLine},
		{KeySSHPrivateKey, false, false, nil}, {KeySSHKnownHosts, false, true, nil},
	},
	SecretRegistry: {
		{KeyServer, true, true, checkServer}, {KeyUsername, true, true, checkUsername}, {KeyPassword, true, false, checkOneLine},
	},
	SecretS3: {
		{KeyAccessKeyID, true, false, checkWord}, {KeySecretAccessKey, true, false, checkWord}, {KeySessionToken, false, false, checkWord},
		{KeyEndpoint, false, true, checkEndpoint}, {KeyRegion, false, true, checkRegion},
	},
}

// SecretTypes lists the types.
func SecretTypes() []SecretType { return slices.Sorted(maps.Keys(secretTypes)) }

// IsCredential says whether a task may name a secret of this type among its credentials.
func (t SecretType) IsCredential() bool { return t == SecretRegistry || t == SecretS3 }

// Has says whether secrets of this type have this key.
func (t SecretType) Has(key string) bool {
	return slices.ContainsFunc(secretTypes[t], func(f secretField) bool { return f.key == key })
}

// Public says whether the value of a key tells only where and who, so that it may be given on a
// command line and stay readable in a log.
func (t SecretType) Public(key string) bool {
	return slices.ContainsFunc(secretTypes[t], func(f secretField) bool { return f.key == key && f.public })
}

// MissingSecretKeys lists what a secret of a type lacks, given the keys that have a value.
func MissingSecretKeys(t SecretType, has func(key string) bool) []fault.Field {
	var f faults
	for _, field := range secretTypes[t] {
		if field.needed && !has(field.key) {
			f.add(child("spec.data", field.key), "A secret of type %s needs this key.", "%s 类型的密钥需要此键。", t)
		}
	}
	if t != SecretGit {
		return f.list
	}
	switch {
	case has(KeySSHPrivateKey) && !has(KeySSHKnownHosts):
		f.add(child("spec.data", KeySSHKnownHosts), "A private key needs it: a host is believed only by its known key (ssh-keyscan HOST).", "使用私钥时需要此键：只信任已知主机密钥（ssh-keyscan HOST）。")
	case !has(KeySSHPrivateKey) && !has(KeyPassword):
		f.add(child("spec.data", KeyPassword), "A secret of type git needs a password (or access token), or ssh-privatekey and known_hosts.", "git 类型的密钥需要 password（或访问令牌），或者 ssh-privatekey 和 known_hosts。")
	}
	return f.list
}

// secretData checks the given keys against the type; what is absent is the server's to judge, who
// knows which keys are there already.
func (f *faults) secretData(at string, t SecretType, data map[string]string) {
	fields, known := secretTypes[t]
	if !known {
		names := SecretTypes()
		f.add("spec.type", "%s is no type of secret; known are %s.", "%s 不是已知的密钥类型，可用的有 %s。", quote(string(t)), list(names))
		return
	}
	for _, key := range sortedKeys(data) {
		i := slices.IndexFunc(fields, func(d secretField) bool { return d.key == key })
		switch {
		case t == SecretOpaque:
		case i < 0:
			f.add(child(at, key), "A secret of type %s has no such key; it has %s.", "%s 类型的密钥没有此键，可用的有 %s。", t, keyNames(fields))
		case data[key] != "" && fields[i].check != nil:
			if text := fields[i].check(data[key]); text != (fault.Text{}) {
				f.Put(child(at, key), "InvalidField", text)
			}
		}
	}
}

func keyNames(fields []secretField) string {
	names := make([]string, len(fields))
	for i, d := range fields {
		names[i] = d.key
	}
	return strings.Join(names, ", ")
}

// The checks never repeat the value: it may be the secret.

func checkOneLine(s string) fault.Text {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fault.T("The value has a line end or another control character; a file often ends with one.", "值中含有换行或其他控制字符；文件末尾常带换行。")
	}
	return fault.Text{}
}

func checkUsername(s string) fault.Text {
	if strings.Contains(s, ":") {
		return fault.T("A user name has no colon.", "用户名不能包含冒号。")
	}
	return checkOneLine(s)
}

// checkWord is for what goes into an INI file: no blanks, and nothing that begins a comment or a
// quotation there for any of the clients.
func checkWord(s string) fault.Text {
	if len(s) > 16<<10 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'#;\\`", r) }) {
		return fault.T("The value has printable ASCII characters only, and no blank, line end, quote, backslash, '#' or ';'; a file often ends with a line end.", "值只能包含可打印的 ASCII 字符，不含空白、换行、引号、反斜杠、'#' 或 ';'；文件末尾常带换行。")
	}
	return fault.Text{}
}

// checkServer wants what stands before the first slash of an image's name, or the address under
// which `docker login` keeps the registry that has one.
func checkServer(s string) fault.Text {
	address := s
	if !strings.Contains(s, "://") {
		address = "https://" + s
	}
	if u, err := url.Parse(address); checkAddress(address) != (fault.Text{}) || err != nil || address != s && u.Path != "" {
		return fault.T("A registry is host or host:port, such as registry.example.org:5000, or the address under which docker login keeps it.", "镜像仓库应写成 host 或 host:port，例如 registry.example.org:5000，或 docker login 保存时使用的地址。")
	}
	return fault.Text{}
}

func checkEndpoint(s string) fault.Text {
	if text := checkWord(s); text != (fault.Text{}) {
		return text
	}
	return checkAddress(s)
}

func checkAddress(s string) fault.Text {
	bad := len(s) > 2048
	u, err := url.Parse(s)
	if !bad && err == nil {
		port, perr := strconv.ParseUint(u.Port(), 10, 16)
		bad = u.Scheme != "http" && u.Scheme != "https" || !hostName.MatchString(u.Host) || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" ||
			u.Port() != "" && (perr != nil || port == 0)
	}
	if bad || err != nil {
		return fault.T("An address is such as https://s3.example.org, without user and query.", "地址应如 https://s3.example.org，不带用户和查询参数。")
	}
	return fault.Text{}
}

// hostName is a host with or without port; an IPv6 address stands in brackets.
var hostName = pattern.New(`^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)

func checkRegion(s string) fault.Text {
	if len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) {
		return fault.T("A region is a word such as cn-north-1.", "region 应为一个词，例如 cn-north-1。")
	}
	return fault.Text{}
}
