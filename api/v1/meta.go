package v1

import (
	"time"
)

// Kind names a kind of object, as in "kind: TrainingTask".
type Kind string

// The kinds.
const (
	KindTrainingTask Kind = "TrainingTask"
	KindPlacement    Kind = "Placement"
	KindZone         Kind = "Zone"
	KindNode         Kind = "Node"
	KindQueue        Kind = "Queue"
	KindProject      Kind = "Project"
	KindUser         Kind = "User"
	KindToken        Kind = "Token"
	KindSecret       Kind = "Secret"
)

// Meta is what every object has.
type Meta struct {
	// ID is made by the server, never reused, and sorts by creation time ("task-…").
	ID string `json:"id,omitempty" doc:"Made by the server; never reused; sorts by creation time."`
	// Name is DNS-safe (RFC 1123 label) and unique within project and kind.
	Name string `json:"name,omitempty" pattern:"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$" doc:"DNS-safe, unique within project and kind; made from displayName when absent."`
	// DisplayName is any Unicode text of 1 to 128 characters without control and bidi characters.
	DisplayName string            `json:"displayName,omitempty" maxLength:"128" doc:"Shown to people; 1 to 128 characters."`
	Project     string            `json:"project,omitempty" pattern:"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$" doc:"The tenant; absent for kinds of the whole cluster."`
	Owner       string            `json:"owner,omitempty" doc:"The user who made it."`
	Labels      map[string]string `json:"labels,omitempty"`
	// Revision is the store's; an update must carry the one it was made from.
	Revision  int64      `json:"revision,omitempty" doc:"Changes with every write; an update must carry the one it read."`
	CreatedAt time.Time  `json:"createdAt,omitzero"`
	UpdatedAt time.Time  `json:"updatedAt,omitzero"`
	DeletedAt *time.Time `json:"deletedAt,omitempty" doc:"Set once deletion was asked for; the object goes when its work has ended."`
}

// Object is any kind. Objects handed out by the store are shared: never changed in place.
type Object interface {
	Kind() Kind
	GetMeta() *Meta
}

// Key finds an object. Project is "" for kinds of the whole cluster.
type Key struct {
	Kind    Kind
	Project string
	Name    string
}

// KeyOf is the key of an object.
func KeyOf(o Object) Key {
	m := o.GetMeta()
	return Key{Kind: o.Kind(), Project: m.Project, Name: m.Name}
}

func (k Key) String() string {
	if k.Project == "" {
		return string(k.Kind) + "/" + k.Name
	}
	return string(k.Kind) + "/" + k.Project + "/" + k.Name
}
