package mirror

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// What a custom object notes, and what Fermi's.
const (
	noteID    = "fermi.io/id"            // id of Fermi's object
	noteBorn  = "fermi.io/born"          // "here": Fermi's was first
	labelUID  = "fermi.io/custom-object" // uid of the custom object that Fermi's was made from
	finalizer = "fermi.io/mirror"

	bornInFermi = "fermi"
	refused     = "Refused" // phase of a custom object that Fermi does not take
)

// action is the next step.
type action string

const (
	nothing    action = ""
	makeCustom action = "make the custom object"
	dropCustom action = "delete the custom object"
	release    action = "let the custom object go"
	makeFermi  action = "make Fermi's object"
	dropFermi  action = "delete Fermi's object"
	join       action = "note that they belong together"
	change     action = "change Fermi's object"
	taken      action = "say that the name is taken"
	show       action = "show the status"
)

// pair is one name on both sides; nil: there is none.
type pair struct {
	custom *unstructured.Unstructured
	fermi  api.Object
}

func (p *pair) id() string { return p.custom.GetAnnotations()[noteID] }

// seen is the generation of the custom object that its status is of; 0: it has none.
func (p *pair) seen() int64 {
	n, _, _ := unstructured.NestedInt64(p.custom.Object, "status", "observedGeneration")
	return n
}

func (p *pair) isRefused() bool {
	phase, _, _ := unstructured.NestedString(p.custom.Object, "status", "phase")
	return phase == refused && p.seen() == p.custom.GetGeneration()
}

// decide is the whole judgement: what to do next; pure.
func decide(p *pair) action {
	switch {
	case p.custom == nil && (p.fermi == nil || p.fermi.GetMeta().DeletedAt != nil):
		return nothing
	case p.custom == nil:
		return makeCustom
	case p.custom.GetDeletionTimestamp() != nil:
		return p.leaving()
	case p.fermi == nil && p.id() != "":
		return dropCustom
	case p.fermi == nil && p.isRefused():
		return nothing
	case p.fermi == nil:
		return makeFermi
	case p.id() == "" && p.fermi.GetMeta().Labels[labelUID] == string(p.custom.GetUID()):
		return join
	case p.id() == "" && p.isRefused():
		return nothing
	case p.id() == "":
		return taken
	case p.id() != p.fermi.GetMeta().ID:
		return dropCustom // of one that is gone
	case p.seen() != 0 && p.seen() != p.custom.GetGeneration():
		return change
	}
	return show
}

// leaving is for a custom object that somebody deleted.
func (p *pair) leaving() action {
	switch ours := p.fermi != nil && p.fermi.GetMeta().ID == p.id(); {
	case ours && p.fermi.GetMeta().DeletedAt == nil:
		return dropFermi
	case ours:
		return show // its end is waited for
	}
	return release
}
