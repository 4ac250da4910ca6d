package inventory

import (
	"slices"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// card is a device with what its links say.
type card struct {
	device api.Device
	bus    string   // its own PCI address
	links  []string // PCI addresses of the far ends: other cards, or switches
}

// islands names for each card the island of cards that it reaches by links, directly or through
// others; "" for one that is alone. A far end that is no card is a switch: who shares one, shares
// the island.
func islands(cards []card) []string {
	parent := map[string]string{}
	var find func(string) string
	find = func(x string) string {
		if p, ok := parent[x]; ok && p != x {
			root := find(p)
			parent[x] = root
			return root
		}
		return x
	}
	for _, c := range cards {
		for _, far := range c.links {
			if c.bus != "" && far != "" {
				parent[find(far)] = find(c.bus)
			}
		}
	}
	size := map[string]int{}
	for _, c := range cards {
		size[find(c.bus)]++
	}
	out := make([]string, len(cards))
	var order []string
	for i, c := range cards {
		root := find(c.bus)
		if c.bus == "" || size[root] < 2 {
			continue
		}
		n := slices.Index(order, root)
		if n < 0 {
			n = len(order)
			order = append(order, root)
		}
		out[i] = "nvlink-" + strconv.Itoa(n)
	}
	return out
}

var (
	// chip is a data centre model: A100, V100, H800, L40S, GB200.
	chip = pattern.New(`^(?:GB|GH|[ABHLPTVKM])[0-9]{1,4}[A-Z]{0,2}$`)
	// brands say who made it, not what it is.
	brands = []string{"NVIDIA", "Tesla", "GeForce", "Graphics", "Device"}
	// ends are where a model's name stops and its packaging begins.
	ends = pattern.New(`^(?:[0-9]+GB|SXM[0-9]*|PCIe|PCIE|NVL|Laptop|GPU|Generation|with|Max-Q|HBM[0-9].*|MIG)$`)
)

const maxType = 64

// TypeOf is the type that people ask for, of the name that the driver gives: "NVIDIA
// A100-SXM4-80GB" is an A100, "NVIDIA GeForce RTX 4090" an RTX 4090.
func TypeOf(model string) string {
	model = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, model)
	words := strings.FieldsFunc(model, func(r rune) bool { return r == ' ' || r == '-' })
	words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains(brands, w) })
	if len(words) > 0 && chip.MatchString(words[0]) {
		return words[0]
	}
	if i := slices.IndexFunc(words, ends.MatchString); i > 0 {
		words = words[:i]
	}
	name := strings.Join(words, " ")
	if name == "" {
		return "GPU"
	}
	return strings.TrimSpace(name[:min(len(name), maxType)])
}
