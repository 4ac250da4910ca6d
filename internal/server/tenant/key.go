package tenant

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/crypto/ssh"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

const (
	maxKeys    = 32 // of a user
	maxKey     = 16 << 10
	maxKeyName = 128
	minRSA     = 2048
	maxRSA     = 16384
)

// keyTypes are those that are taken.
var keyTypes = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256, ssh.KeyAlgoRSA,
}

// Keys are the public keys of users. Safe for concurrent use.
type Keys struct {
	Truth *truth.Truth
	Door  *door.Door
	Clock clock.Clock
}

// keyBody is a key to add.
type keyBody struct {
	Key  string `json:"key" doc:"A line of authorized_keys or of a .pub file: ssh-ed25519 AAAA… comment."`
	Name string `json:"name,omitempty" maxLength:"128" doc:"What you call it; its comment when absent."`
}

// Routes add and remove keys; they are read with their user.
func (s *Keys) Routes(reg *rest.Schemas) []*rest.Route {
	base := rest.Prefix + "/users/{name}/keys"
	return []*rest.Route{
		{
			Method: http.MethodPost, Path: base, ID: "addUserKey", Tag: "users", Kind: api.KindUser, Verb: "addKey",
			Summary: "Add a public key: it opens the user's environments over SSH.", Data: rest.SchemaOf[terminal.Key](reg), Handle: s.add,
			Body: &rest.BodySpec{Schema: rest.SchemaOf[keyBody](reg), Media: rest.JsonMedia, Required: true, Example: map[string]any{"key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk8gQ8MSVzBy7H2VqWQ4LHk2qbJl8bUJ0d0mP6aUq1a li@laptop"}},
		},
		{
			Method: http.MethodDelete, Path: base + "/{key}", ID: "removeUserKey", Tag: "users", Kind: api.KindUser, Verb: "removeKey",
			Summary: "Remove a public key, by its id or name; connections made with it end.", Data: keyList(reg), Handle: s.remove,
		},
	}
}

func keyList(reg *rest.Schemas) *huma.Schema {
	return rest.Object([]string{"items"}, map[string]*huma.Schema{"items": rest.ListOf(rest.SchemaOf[terminal.Key](reg))})
}

func (s *Keys) add(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	var in keyBody
	if err := c.ReadJSON(&in, "key, name"); err != nil {
		return nil, err
	}
	key, err := ParseKey(in.Key, in.Name)
	if err != nil {
		return nil, err
	}
	if err := s.Door.Endless(c.Who); err != nil {
		return nil, err
	}
	key.AddedAt = s.Clock.Now().UTC()
	_, rev, err := s.edit(ctx, c, func(u *api.User) error {
		if len(u.Status.SSHKeys) >= maxKeys {
			return fault.New(fault.Conflict, "TooManyKeys", fault.T("%s has %d keys already; remove one first.", "%s 已有 %d 个公钥，请先删除一个。", u.Meta.Name, maxKeys))
		}
		if slices.ContainsFunc(u.Status.SSHKeys, func(k terminal.Key) bool { return k.Name == key.Name && key.Name != "" }) {
			return refuse.Invalid("name", fault.T("There is a key of that name already: %s.", "已有同名公钥：%s。", key.Name))
		}
		u.Status.SSHKeys = append(u.Status.SSHKeys, key)
		return nil
	}, func(snap store.Snapshot) error {
		owner, _ := OwnerOf(snap, key.Key)
		if owner == nil {
			return nil
		}
		return fault.New(fault.Conflict, "KeyInUse", fault.T("The key %s is registered already.", "公钥 %s 已被登记。", key.Fingerprint)).WithHint(
			fault.T("A key opens the door for one user; make another with ssh-keygen -t ed25519.", "一个公钥只属于一个用户；可用 ssh-keygen -t ed25519 新建。"))
	})
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Message: fault.T("Key added", "公钥已添加"), Data: key, Revision: rev}, nil
}

func (s *Keys) remove(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	which := c.R.PathValue("key")
	next, rev, err := s.edit(ctx, c, func(u *api.User) error {
		n := len(u.Status.SSHKeys)
		u.Status.SSHKeys = slices.DeleteFunc(slices.Clone(u.Status.SSHKeys), func(k terminal.Key) bool { return k.ID == which || k.Name == which })
		if len(u.Status.SSHKeys) == n {
			return fault.New(fault.NotFound, "NoSuchKey", fault.T("%s has no key %q.", "%s 没有公钥 %q。", u.Meta.Name, refuse.Clip(which, 64)))
		}
		return nil
	}, nil)
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Message: fault.T("Key removed", "公钥已删除"), Data: map[string]any{"items": append([]terminal.Key{}, next.Status.SSHKeys...)}, Revision: rev}, nil
}

// edit changes the keys of the user in the path; first is asked before it about all users.
func (s *Keys) edit(ctx context.Context, c *rest.Call, change func(*api.User) error, first func(store.Snapshot) error) (*api.User, int64, error) {
	row, name := api.MustInfo(api.KindUser), c.R.PathValue("name")
	c.Note.Names(row.Kind, name)
	if !api.IsName(name) || c.Who.Reach(c.Route.ID) != access.All && name != c.Who.Name() {
		return nil, 0, refuse.Missing(row, name)
	}
	var err error
	var minimum int64
	for range truth.Retries {
		if first != nil {
			snap, err := s.Truth.List(ctx, api.KindUser, "", max(minimum, s.Truth.Newest()))
			if err != nil {
				return nil, 0, err
			}
			if err := first(snap); err != nil {
				return nil, 0, err
			}
		}
		var o api.Object
		if o, err = s.Truth.Find(ctx, api.Key{Kind: row.Kind, Name: name}, minimum); fault.Is(err, fault.NotFound) {
			return nil, 0, refuse.Missing(row, name)
		} else if err != nil {
			return nil, 0, err
		}
		c.Note.Before(o)
		next := store.Clone(o.(*api.User))
		if err := change(next); err != nil {
			return nil, 0, err
		}
		next.Meta.UpdatedAt = s.Clock.Now().UTC()
		var rev int64
		if rev, err = s.Truth.Write(ctx, store.Update(next)); err == nil {
			c.Note.After(next)
			return door.WithoutPassword(next), rev, nil
		}
		if fault.ReasonOf(err) != "Stale" {
			return nil, 0, err
		}
		minimum = o.GetMeta().Revision + 1
	}
	return nil, 0, err
}

// OwnerOf is the user who has a key, in the form of SSHKey.Key; nil: nobody has. Where two servers took it at the same moment, the elder counts.
func OwnerOf(users store.Snapshot, key string) (owner *api.User, found terminal.Key) {
	users.Ascend("", func(o api.Object) bool {
		u := o.(*api.User)
		for _, k := range u.Status.SSHKeys {
			if k.Key == key && (owner == nil || k.AddedAt.Before(found.AddedAt)) {
				owner, found = u, k
			}
		}
		return true
	})
	return owner, found
}

// KeyText is a key as SSHKey.Key has it.
func KeyText(key ssh.PublicKey) string {
	return key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
}

// ParseKey reads a public key and refuses what is none, or too weak.
func ParseKey(line, name string) (terminal.Key, error) {
	bad := func(en, zh string, args ...any) (terminal.Key, error) {
		return terminal.Key{}, refuse.Invalid("key", fault.T(en, zh, args...))
	}
	if strings.Contains(line, "PRIVATE KEY") {
		return bad("This is a private key: keep it, and give the file that ends in .pub. Nothing was stored.", "这是私钥：请妥善保管，并提供以 .pub 结尾的文件。未保存任何内容。")
	}
	if len(line) > maxKey {
		return bad("A key has at most %d bytes.", "公钥最多 %d 字节。", maxKey)
	}
	pub, comment, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(options) > 0 || strings.TrimSpace(string(rest)) != "" {
		return bad("One public key is wanted, as in a .pub file: ssh-ed25519 AAAA… comment.", "需要一个公钥，格式与 .pub 文件相同：ssh-ed25519 AAAA… 备注。")
	}
	if !slices.Contains(keyTypes, pub.Type()) {
		return bad("Keys of type %s are not taken; make one with ssh-keygen -t ed25519.", "不接受 %s 类型的公钥；可用 ssh-keygen -t ed25519 新建。", pub.Type())
	}
	if c, ok := pub.(ssh.CryptoPublicKey); ok {
		if r, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok && (r.N.BitLen() < minRSA || r.N.BitLen() > maxRSA) {
			return bad("An RSA key has %d to %d bits; this one has %d.", "RSA 密钥应为 %d 到 %d 位，该密钥为 %d 位。", minRSA, maxRSA, r.N.BitLen())
		}
	}
	if name == "" {
		name = comment
	}
	if name = strings.TrimSpace(name); !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(name) > maxKeyName {
		return terminal.Key{}, refuse.Invalid("name", fault.T("At most %d bytes of text on one line.", "最多 %d 字节的单行文本。", maxKeyName))
	}
	sum := sha256.Sum256(pub.Marshal())
	return terminal.Key{ID: hex.EncodeToString(sum[:6]), Name: name, Key: KeyText(pub), Fingerprint: ssh.FingerprintSHA256(pub)}, nil
}
