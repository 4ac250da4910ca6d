package sensor

import (
	"bufio"
	"bytes"
	"strings"

	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

var (
	gpuHead   = pattern.New(`^GPU [0-9]+: .*\(UUID: (GPU-[0-9a-f-]+)\)`)
	linkError = pattern.New(`^Link [0-9]+: (Replay|Recovery|CRC(?: Flit| Data)?) Errors: ([0-9]+)$`)
	linkState = pattern.New(`^Link [0-9]+: (<inactive>|[0-9.]+ GB/s)$`)
)

// ParseNVLink reads what `nvidia-smi nvlink -e` or `-s` printed, by card, and adds it to what is there. Cards without a
// UUID in their line are left out: nobody could say which they are.
func ParseNVLink(raw []byte, into map[string]*card.ReadingNVLink) {
	lines := bufio.NewScanner(bytes.NewReader(raw[:min(len(raw), maxOutput)]))
	var at *card.ReadingNVLink
	add := func(to **int64, n int64) {
		if *to == nil {
			*to = new(int64)
		}
		**to += n
	}
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "GPU ") {
			at = nil
			if m := gpuHead.FindStringSubmatch(line); m != nil {
				if into[m[1]] == nil {
					into[m[1]] = &card.ReadingNVLink{}
				}
				at = into[m[1]]
			}
			continue
		}
		if at == nil {
			continue
		}
		if m := linkError.FindStringSubmatch(line); m != nil {
			n := number(m[2])
			if n == nil {
				continue
			}
			switch m[1] {
			case "Replay":
				add(&at.Replay, *n)
			case "Recovery":
				add(&at.Recovery, *n)
			default:
				add(&at.CRC, *n)
			}
		} else if m := linkState.FindStringSubmatch(line); m != nil {
			add(&at.Links, 1)
			if m[1] == "<inactive>" {
				add(&at.Down, 1)
			} else {
				add(&at.Down, 0)
			}
		}
	}
}
