package mirror

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/reconcile"
	"github.com/fermi-cluster/fermi/internal/run"
)

// Group is that of the custom objects.
var Group = schema.GroupVersion{Group: "fermi.io", Version: "v1"}

// custom are the resources that stand for a kind; the first one is made for what Fermi has.
type custom struct {
	kind  api.Kind
	names []name
}

type name struct{ plural, kind string }

var customs = []custom{
	{api.KindTrainingTask, []name{{"trainingtasks", "TrainingTask"}, {"trainingjobs", "TrainingJob"}}},
	{devenv.Kind, []name{{"devenvironments", "DevEnvironment"}}},
	{serving.Kind, []name{{"inferenceservices", "InferenceService"}}},
}

func customOf(kind api.Kind) custom {
	return customs[slices.IndexFunc(customs, func(c custom) bool { return c.kind == kind })]
}

// Config is what a mirror needs.
type Config struct {
	Cluster dynamic.Interface
	Fermi   *client.Client
	// Projects are those that are mirrored, by namespace; a project has one namespace.
	Projects map[string]string
	Log      *slog.Logger
	Clock    clock.Clock
}

// Mirror keeps both sides alike.
type Mirror struct {
	cfg    Config
	spaces map[string]string // namespaces by project
	loop   *reconcile.Loop
}

// New makes one; it starts nothing.
func New(cfg Config) *Mirror {
	m := &Mirror{cfg: cfg, spaces: map[string]string{}}
	for namespace, project := range cfg.Projects {
		m.spaces[project] = namespace
	}
	m.loop = reconcile.New(reconcile.Config{Name: "mirror", Reconciler: m, Clock: cfg.Clock, Log: cfg.Log})
	return m
}

// Run works until ctx ends.
func (m *Mirror) Run(ctx context.Context) error {
	var g run.Group
	g.Add("turns", m.loop.Run)
	for _, namespace := range slices.Sorted(maps.Keys(m.cfg.Projects)) {
		project := m.cfg.Projects[namespace]
		for _, c := range customs {
			for _, n := range c.names {
				g.Add(namespace+"/"+n.plural, func(ctx context.Context) error { m.follow(ctx, c.kind, n.plural, namespace, project); return nil })
			}
			g.Add(project+"/"+string(c.kind), func(ctx context.Context) error {
				err := m.cfg.Fermi.Watch(ctx, c.kind, client.WatchOptions{Project: project}, func(ch client.Change) error {
					if ch.Object != nil {
						m.loop.Add(api.Key{Kind: c.kind, Project: project, Name: ch.Object.GetMeta().Name})
					}
					return nil
				})
				if ctx.Err() != nil {
					return nil
				}
				return err
			})
		}
	}
	return g.Run(ctx)
}

func (m *Mirror) at(plural, namespace string) dynamic.ResourceInterface {
	return m.cfg.Cluster.Resource(Group.WithResource(plural)).Namespace(namespace)
}

// follow asks for a turn for every custom object that is there, and whenever one changes.
func (m *Mirror) follow(ctx context.Context, kind api.Kind, plural, namespace, project string) {
	const pause = time.Second
	for ctx.Err() == nil {
		if err := m.once(ctx, kind, plural, namespace, project); err != nil && ctx.Err() == nil {
			m.cfg.Log.Warn("custom objects can't be followed; trying again", "resource", plural, "namespace", namespace, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-m.cfg.Clock.After(pause):
		}
	}
}

func (m *Mirror) once(ctx context.Context, kind api.Kind, plural, namespace, project string) error {
	list, err := m.at(plural, namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		m.loop.Add(api.Key{Kind: kind, Project: project, Name: list.Items[i].GetName()})
	}
	changes, err := m.at(plural, namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer changes.Stop()
	for ch := range changes.ResultChan() {
		o, ok := ch.Object.(*unstructured.Unstructured)
		if !ok || o.GetName() == "" {
			return nil // the list is too old, or the watch was ended
		}
		m.loop.Add(api.Key{Kind: kind, Project: project, Name: o.GetName()})
	}
	return nil
}

// Reconcile is one turn for one name.
func (m *Mirror) Reconcile(ctx context.Context, key api.Key) (reconcile.Result, error) {
	p, at, err := m.observe(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	do := decide(p)
	if do != nothing && do != show {
		m.cfg.Log.Info("mirroring", "kind", key.Kind, "project", key.Project, "name", key.Name, "do", string(do))
	}
	return reconcile.Result{}, m.apply(ctx, key, p, at, do)
}

// observe reads both sides; at is where the custom object is, or would be.
func (m *Mirror) observe(ctx context.Context, key api.Key) (p *pair, at dynamic.ResourceInterface, err error) {
	p = &pair{}
	names, namespace := customOf(key.Kind).names, m.spaces[key.Project]
	at = m.at(names[0].plural, namespace)
	for _, n := range names {
		o, err := m.at(n.plural, namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		p.custom, at = o, m.at(n.plural, namespace)
		break
	}
	o, err := m.cfg.Fermi.Get(ctx, key.Kind, key.Project, key.Name)
	switch {
	case err == nil:
		p.fermi = o
	case !fault.Is(err, fault.NotFound):
		return nil, nil, err
	}
	return p, at, nil
}

func (m *Mirror) apply(ctx context.Context, key api.Key, p *pair, at dynamic.ResourceInterface, do action) error {
	switch do {
	case makeCustom:
		return m.makeCustom(ctx, key, p, at)
	case dropCustom:
		uid := p.custom.GetUID()
		return fine(at.Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))
	case release:
		return m.note(ctx, p, at, map[string]any{"finalizers": slices.DeleteFunc(p.custom.GetFinalizers(), func(f string) bool { return f == finalizer })})
	case dropFermi:
		err := m.cfg.Fermi.Delete(ctx, key.Kind, key.Project, key.Name)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	case makeFermi:
		return m.makeFermi(ctx, key, p, at)
	case join:
		return m.note(ctx, p, at, map[string]any{"annotations": map[string]any{noteID: p.fermi.GetMeta().ID}})
	case change:
		return m.change(ctx, key, p, at)
	case taken:
		return m.say(ctx, p, at, fault.New(fault.Conflict, "NameTaken", fault.T("Project %s has another %s of this name.", "项目 %s 中已有同名的 %s。", key.Project, key.Kind)))
	case show:
		return m.show(ctx, p, at, statusOf(p.fermi))
	}
	return nil
}

// fine is for calls whose object may be gone, or another by now: then there is another turn.
func fine(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (m *Mirror) makeCustom(ctx context.Context, key api.Key, p *pair, at dynamic.ResourceInterface) error {
	spec, err := specOf(p.fermi)
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion(Group.String())
	o.SetKind(customOf(key.Kind).names[0].kind)
	o.SetName(key.Name)
	o.SetFinalizers([]string{finalizer})
	o.SetAnnotations(map[string]string{noteID: p.fermi.GetMeta().ID, noteBorn: bornInFermi})
	_, err = at.Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// makeFermi makes what a custom object wishes. It is held first, so that nobody deletes it unnoticed.
func (m *Mirror) makeFermi(ctx context.Context, key api.Key, p *pair, at dynamic.ResourceInterface) error {
	if !slices.Contains(p.custom.GetFinalizers(), finalizer) {
		if err := m.note(ctx, p, at, map[string]any{"finalizers": append(p.custom.GetFinalizers(), finalizer)}); err != nil {
			return err
		}
	}
	want, err := m.decode(ctx, key, p)
	if err == nil {
		_, err = m.cfg.Fermi.Create(ctx, want, false)
	}
	if isFinal(err) {
		return m.say(ctx, p, at, err)
	}
	return err
}

// change brings what was changed in a custom object to Fermi's.
func (m *Mirror) change(ctx context.Context, key api.Key, p *pair, at dynamic.ResourceInterface) error {
	want, err := m.decode(ctx, key, p)
	if err == nil {
		want, err = withSpecOf(p.fermi, want)
	}
	if err == nil {
		p.fermi, err = m.cfg.Fermi.Update(ctx, want, false)
	}
	switch {
	case isFinal(err):
		status := statusOf(p.fermi)
		status["reason"], status["message"] = "ChangeRefused", words(err)
		return m.show(ctx, p, at, status)
	case err != nil:
		return err
	}
	return m.show(ctx, p, at, statusOf(p.fermi))
}

// isFinal says that asking again changes nothing.
func isFinal(err error) bool {
	if err == nil {
		return false
	}
	switch fault.From(err).Code {
	case fault.Invalid, fault.Forbidden, fault.NotFound, fault.TooLarge, fault.Conflict:
		return true
	}
	return false
}

// words are those of a fault, with its fields and what can be done.
func words(err error) string {
	f := fault.From(err)
	parts := []string{f.Message.EN}
	for _, field := range f.Fields {
		parts = append(parts, field.Path+": "+field.Message.EN)
	}
	if f.Hint.EN != "" {
		parts = append(parts, f.Hint.EN)
	}
	return strings.Join(parts, " ")
}

// say shows that Fermi does not take a custom object, and why.
func (m *Mirror) say(ctx context.Context, p *pair, at dynamic.ResourceInterface, why error) error {
	return m.show(ctx, p, at, map[string]any{"phase": refused, "reason": fault.From(why).Reason, "message": words(why)})
}

// show writes a status, if it is not as it is.
func (m *Mirror) show(ctx context.Context, p *pair, at dynamic.ResourceInterface, status map[string]any) error {
	status["observedGeneration"] = p.custom.GetGeneration()
	was, _ := p.custom.Object["status"].(map[string]any)
	if reflect.DeepEqual(was, status) {
		return nil
	}
	patch := maps.Clone(status)
	for key := range was {
		if _, ok := status[key]; !ok {
			patch[key] = nil
		}
	}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.custom.GetUID()}, "status": patch})
	if err != nil {
		return err
	}
	_, err = at.Patch(ctx, p.custom.GetName(), types.MergePatchType, raw, metav1.PatchOptions{}, "status")
	return fine(err)
}

// note changes the metadata of a custom object.
func (m *Mirror) note(ctx context.Context, p *pair, at dynamic.ResourceInterface, meta map[string]any) error {
	meta["uid"] = p.custom.GetUID()
	raw, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return err
	}
	next, err := at.Patch(ctx, p.custom.GetName(), types.MergePatchType, raw, metav1.PatchOptions{})
	if err == nil {
		p.custom = next
	}
	return fine(err)
}
