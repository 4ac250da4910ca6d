package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// RotateWish names the keys that are to be replaced.
type RotateWish struct {
	Keys []string `json:"keys" minItems:"1" doc:"secret-key, link-key, admin-token, tls, ssh-key; or all."`
}

// Rotated is a key that was replaced.
type Rotated struct {
	Key     string     `json:"key"`
	Message fault.Text `json:"message" doc:"What was done, and what is left to do."`
}

type rotations struct {
	Items []Rotated `json:"items"`
}

// RotatableKeys are those of a server, in the order in which all of them are replaced: the caller's own token
// comes last.
var RotatableKeys = []string{"secret-key", "link-key", "tls", "ssh-key", "admin-token"}

func (s *system) rotateRoute(reg *rest.Schemas) *rest.Route {
	return &rest.Route{
		Method: http.MethodPost, Path: rest.Prefix + "/rotate", ID: "rotate", Tag: "system", Long: true,
		Summary: "Replace keys of the server while everything runs; for admins.", Verb: "rotate", Kind: "Key",
		Data: rest.SchemaOf[rotations](reg), Handle: s.rotate,
		Body: &rest.BodySpec{Schema: rest.SchemaOf[RotateWish](reg), Media: rest.JsonMedia, Required: true},
	}
}

func (s *system) rotate(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	var wish RotateWish
	if err := c.ReadJSON(&wish, "keys"); err != nil {
		return nil, err
	}
	whole := slices.Contains(wish.Keys, "all")
	for _, key := range wish.Keys {
		if key != "all" && !slices.Contains(RotatableKeys, key) || whole && len(wish.Keys) > 1 {
			return nil, refuse.Invalid("keys", fault.T("%q is no key here; there are %s, or all alone.", "没有名为 %q 的密钥；可用 %s，或单独使用 all。", refuse.Clip(key, 64), strings.Join(RotatableKeys, ", ")))
		}
	}
	if len(wish.Keys) == 0 {
		return nil, refuse.Invalid("keys", fault.T("Name at least one.", "请至少给出一个。"))
	}
	if s.rotateKey == nil {
		return nil, fault.New(fault.Unavailable, "NoRotation", fault.T("This server holds no keys of its own.", "该服务器没有自己的密钥。"))
	}
	out := rotations{Items: []Rotated{}}
	for _, key := range RotatableKeys {
		if !whole && !slices.Contains(wish.Keys, key) {
			continue
		}
		text, err := s.rotateKey(ctx, key)
		if whole && fault.ReasonOf(err) == "NothingToRotate" {
			text, err = fault.From(err).Message, nil
		}
		c.Note.Name, c.Note.What = strings.Join(wish.Keys, ","), rest.JSONText(map[string]any{"keys": wish.Keys})
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, Rotated{key, text})
	}
	return &rest.Reply{Message: fault.T("Keys replaced", "密钥已更换"), Data: out}, nil
}
