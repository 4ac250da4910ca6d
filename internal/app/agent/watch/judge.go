package watch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/health"
)

// The condition, and what it says.
const (
	condition = "fermi.io/unwell"
	mended    = "fermi.io/mended" // annotation: when an operator mended what was wrong

	reasonWell   = "CardsAreWell"
	reasonUnwell = "CardUnwell" // it is so now, and may pass
	reasonFault  = "CardFault"  // it stays so until the node is started again, or mended
	reasonNobody = "NoCards"
)

const (
	maxNamed = 4    // cards that a message names
	maxLines = 4096 // of the kernel's log
)

// word is what is said of the node.
type word struct {
	unwell          bool
	reason, message string
}

// book is all that is known of the cards of this node. Not safe for concurrent use.
type book struct {
	cards   []api.Device // that were ever seen
	base    map[string]card.DeviceCounts
	counted map[string]card.DeviceCounts // that were dealt with when it was mended
	lines   []card.KernelLine
	since   time.Time // what the log says of before was dealt with
	settled bool      // the first readings after a start, or after it was mended, were taken
	mended  bool      // since holds what an operator said
	carried string    // what an earlier agent said of a fault that stays
}

func newBook(booted time.Time) *book {
	return &book{base: map[string]card.DeviceCounts{}, counted: map[string]card.DeviceCounts{}, since: booted}
}

// begin takes up what the node says of itself: whether an operator mended it, and what an earlier agent found.
func (b *book) begin(n *corev1.Node) {
	b.heed(n)
	for _, c := range n.Status.Conditions {
		if c.Type == condition && c.Status == corev1.ConditionTrue && c.Reason == reasonFault && c.LastTransitionTime.After(b.since) {
			b.carried = c.Message
		}
	}
}

// heed takes up that the node was mended.
func (b *book) heed(n *corev1.Node) {
	at, err := time.Parse(time.RFC3339, n.Annotations[mended])
	if err != nil || !at.After(b.since) {
		return
	}
	b.since, b.carried, b.settled, b.mended = at, "", false, true
}

// meet takes cards that are seen for the first time; those that were seen once and are gone stay known.
func (b *book) meet(list []api.Device) {
	for _, d := range list {
		if !slices.ContainsFunc(b.cards, func(had api.Device) bool { return had.UUID == d.UUID }) {
			d.Index = len(b.cards)
			b.cards = append(b.cards, d)
		}
	}
}

// hear takes a line of the kernel's log.
func (b *book) hear(l card.KernelLine) {
	if b.lines = append(b.lines, l); len(b.lines) > maxLines {
		b.lines = slices.Clone(b.lines[len(b.lines)-maxLines:])
	}
}

// judge says how the node is, by readings of its cards.
func (b *book) judge(readings map[int]*card.DeviceReading, now time.Time) word {
	b.settle(readings)
	ill := map[int]string{}
	stays := false
	for i, d := range b.cards {
		for _, f := range b.faults(d, readings[i], now) {
			stays = stays || lasts(f.Kind)
			ill[i] = cmp.Or(ill[i], fmt.Sprintf("card %d (%s): %s", i, cmp.Or(d.Bus, d.UUID), f.Message.EN))
		}
	}
	switch {
	case len(ill) > 0:
		names := make([]string, 0, maxNamed)
		for _, i := range slices.Sorted(maps.Keys(ill)) {
			if len(names) == maxNamed {
				names = append(names, fmt.Sprintf("and %d more", len(ill)-maxNamed))
				break
			}
			names = append(names, ill[i])
		}
		out := word{true, reasonUnwell, strings.Join(names, "; ") + "."}
		if stays {
			out.reason = reasonFault
		}
		return out
	case b.carried != "":
		return word{true, reasonFault, b.carried}
	case len(b.cards) == 0:
		return word{false, reasonNobody, "nvidia-smi names no card here."}
	}
	return word{false, reasonWell, fmt.Sprintf("%d cards are well.", len(b.cards))}
}

// settle notes where counters stand that grow for ever: what is there at the first reading is no news, and after an operator mended the node nothing is.
func (b *book) settle(readings map[int]*card.DeviceReading) {
	answered := false
	for i, r := range readings {
		if r == nil || r.Lost || r.Silent > 0 || i >= len(b.cards) {
			continue
		}
		answered = true
		uuid := b.cards[i].UUID
		if _, ok := b.base[uuid]; !ok {
			b.base[uuid] = health.CountsOf(r, card.DeviceCounts{})
		}
		if !b.settled && b.mended && b.carried == "" {
			b.counted[uuid] = health.CountsOf(r, card.DeviceCounts{})
		}
	}
	b.settled = b.settled || answered
}

// faults are what is wrong with a card so that it should take no work.
func (b *book) faults(d api.Device, r *card.DeviceReading, now time.Time) (out []card.DeviceCondition) {
	for _, c := range health.Conditions(r, b.counted[d.UUID], b.base[d.UUID], now) {
		if c.Action.Closes() {
			out = append(out, c)
		}
	}
	for _, l := range b.lines {
		if l.At.After(b.since) && card.SameBus(l.Bus, d.Bus) && health.XidAction(l.Xid, l.Text).Closes() {
			kind := fmt.Sprintf("xid-%d", l.Xid)
			out = append(out, card.DeviceCondition{Kind: kind, Message: health.Words(kind, 0, "")})
		}
	}
	return out
}

// lasts says that a fault of this kind is not over because nobody sees it any more.
func lasts(kind string) bool {
	return !slices.Contains([]string{"silent", "throttle", "recovery", "rows", "pages"}, kind)
}
