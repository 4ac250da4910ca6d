package result

// group is a chapter of the page.
type group struct {
	title    string
	subjects []subject
}

// subject is a benchmark, or a suite that counts.
type subject struct {
	name, run string // run: the command
	about     string // what is measured, and how
}

var groups = []group{
	{"Start and submit", []subject{
		{"start", "make bench-start", "Ten starts of `fermi up` on a fresh folder, from exec to a 200 of `/readyz`; then one server left alone for 30 s."},
		{"submit", "make bench-submit", "From the call to the first line of `/bin/echo` as a following client sees it, over HTTP, each replica behind its wall; then 100 submits a second into a paused queue while others read."},
		{"archive", "make bench-archive", "A folder with 1,000,000 finished and 100,000 queued tasks, on which the shipped binary is started three times; twelve kinds of list, up to 3 pages of 50 each."},
		{"web", "make bench-web", "The console in Chromium with an empty cache, five times: bytes over the wire, and the time until the overview stands."},
	}},
	{"Doors and several servers", []subject{
		{"gateway", "make bench-gateway", "One service of one replica and 1 kB of JSON through `fermi gateway`, Go's bare ReverseProxy, and Debian's Caddy, nginx and HAProxy, each in a process of its own, 16 clients, in turn; then 5,000 streams open at once."},
		{"doors", "make test", "Tests that count their cases: every route for every kind of caller, probes of one tenant against another, values of secrets in every place that could show them."},
		{"fuzz", "make e2e-fuzz", "Every operation of the OpenAPI document fuzzed by schemathesis: no 5xx, no answer outside its schema, none without an answer in time."},
		{"ha", "make bench-ha", "Three servers and three etcd members with mutual TLS (election timeout 700 ms) and PostgreSQL, in network namespaces; leader, follower and etcd leader are killed, paused and cut off."},
		{"attack", "make e2e-attack", "A hostile member against the shipped binary as root, on a real node and in the demo: each attack on paths directly, by a link and as a race of 10,000 swaps; owners, modes and secrets are looked at after each."},
		{"disk", "make e2e-disk", "Full disks, file names used up, I/O errors, wrong clocks, and bytes flipped or files cut in a data folder and in a backup."},
		{"crash", "make e2e-crash", "Servers and launchers killed and leaders paused at random moments; each acknowledged task must run once and only once."},
	}},
	{"Environments and data", []subject{
		{"ssh", "make bench-ssh", "An environment with one core, on the machine of its server: ten logins, ten web terminals, 1,000 keys one after the other, and 1 GiB by OpenSSH's sftp, in turn from the environment and from OpenSSH's own server with the same cipher. What comes from the environment goes through the server and the launcher."},
		{"data", "make bench-data", "Uploads by the shipped binary, beside a copy with fsync of each file on the same disk."},
		{"environments", "make bench-environments", "500 environments in the demo, each with its launcher; the server's VmRSS, the least within 150 s, before and after."},
	}},
	{"Kubernetes", []subject{
		{"kube", "make bench-kube", "1,250 KWOK nodes with 8 devices, an API server, Fermi and all peers on the same cores, one after the other: gangs by Fermi, the same pods already bound by a plain client with 32 calls at once and the same rights, and by kube-scheduler, which knows no gangs."},
	}},
	{"Planner", []subject{
		{"rates", "make bench-rates", "12,500 nodes, filled to 90 % and emptied to half at random; arrive, plan and leave are in the time; seven runs. The restart counts the planner's model, not the reading of the store."},
		{"backlog", "make bench-backlog", "Two processes, alike but for the backlog, in turn, 40 rounds of 80,000 decisions; all processor time counts."},
		{"chronus", "make bench-chronus", "Chronus-Philly SLO, 30,735 jobs on 120 nodes with 8 devices, through the planner on a virtual clock. The planner sees user, model and devices, and what finished before."},
		{"chronus-variants", "make bench-chronus", "The same trace with other settings of the planner."},
		{"openb", "make bench-openb", "The OpenB experiment as published, seeds 42 to 51: mean allocation when 100 and 130 % of the devices were asked for; the bound is the published figure of FGD."},
		{"mind-overload", "make bench-mind", "Generated work: in the first week three times the capacity in eight hours of each day (sustained: all day long), in the second week half of it. Over least attained service (LAS), which only counts devices."},
		{"mind-backlog", "make bench-mind", "A full cluster with a backlog that could fit: processor time of a turn of the planner, with preemption and 20 queues."},
		{"mind-topology", "make bench-mind", "2,016 nodes in racks of 4 and leaves of 16, 20,000 gangs of 1 to 64 nodes, no preemption; the rival takes the tightest rack, then the tightest leaf, by age."},
		{"mind-churn", "make bench-mind", "Pods of the OpenB traces that come at random and live for an exponential time: the share of what was asked in devices that was refused, less that of the better of FGD and BestFit; a tie is two standard errors."},
		{"mind-zones", "make bench-mind", "Gangs that can all wait for the cheap hours of one zone of two nodes, each with a deadline, against the exact optimum; and gangs that start at once in one of several zones, price and carbon weighed alike, against the best zone that has room."},
		{"mind-deadlines", "make bench-mind", "Six gangs for one node, each with an expected time and a deadline, against the best of all 720 orders."},
		{"sched-safety", "make e2e-sched-safety", "The planner against generated scenarios, and changes that `fermi why` suggests applied."},
		{"mutate-sched", "make mutate-sched", "Bugs planted in the planner, one at a time; the seeded scenarios must find each."},
	}},
	{"Training", []subject{
		{"recovery", "make bench-recovery", "SIGKILL of one of four PyTorch ranks until the next step, Fermi and torchrun in turn; rank 0 and the lead are among the killed in a quarter. SIGSTOP of one, in the same run."},
		{"overhead", "make bench-overhead", "A PyTorch training of four ranks under Fermi and under torchrun in turn, nothing failing; pairs of 60 steps, bootstrap over pairs."},
		{"rendezvous", "make bench-rendezvous", "A new generation of 16,384 launchers, server and launchers on the same cores; then the server is killed and another one starts on its data."},
		{"agents", "make bench-agents", "200 agents with 8 launchers each, goroutines of two processes that speak the protocol over TLS and certificates, and two servers with an outside etcd; the leading one is killed, five times. The cost of an idle agent is a real one's, on a host of `make e2e-hosts`."},
		{"hosts", "make bench-hosts", "PyTorch DDP over four hosts, network namespaces in two zones 12 ms apart, each with an agent: a rank killed, a host without power (elastic from 2 to 4, a standby on each), and the same samples on one host and over both zones, beside what the preview says."},
		{"curves", "make bench-curves", "1,000 launchers hand over 10 series of one point a second into SQLite for ten minutes, and the server is killed twice while they do; a series of a million points is opened over the API of the shipped binary."},
		{"preflight", "make bench-preflight", "The checks before the first start of a gang on 64 virtual nodes."},
		{"faults", "make e2e-faults", "200 seeded faults of 31 kinds, 27 of them real PyTorch's, beside a healthy training that nothing may stop."},
		{"silence", "make e2e-silence", "One of four replicas, or all of a zone's, frozen, killed, cut off or taken out, 50 drills; and 50 times the server paused or killed, or six busy loops, which must lose nobody."},
		{"cards", "make e2e-cards", "Faults of cards in the demo: each must lead to a closed card, a save, a move and, where told to heal, a return."},
		{"trainers", "make e2e-trainers", "Ordinary scripts with Transformers, Lightning and Accelerate, killed ten times each at random moments."},
		{"torch", "make e2e-torch", "Real PyTorch under a real server, killed, resized and without the server: SHA-256 of weights, optimizer, random states and the next 100 sample ids must be those of a run that nobody interrupted."},
		{"nodes", "make e2e-torch", "A launcher killed and its memory removed, two ranks of PyTorch: the next step of all ranks."},
		{"frameworks", "make e2e-frameworks", "Each framework's recipe, run with the real framework on CPUs."},
		{"images", "make e2e-images", "Roles in images of their own, from docker's registry; a rank killed, then a launcher lost while the registry is away."},
		{"card", "make e2e-gpu", "The SDK, then the whole platform on a CUDA card."},
		{"card-restart", "make e2e-gpu", "The whole platform on a CUDA card: a rank with 1.5 GiB of state killed, then stopped."},
		{"card-trainers", "make e2e-gpu", "An ordinary Transformers script on a CUDA card, saved in memory by the platform, killed in the middle; and the readings of the card beside those of nvidia-smi."},
		{"card-preflight", "make e2e-gpu", "Preflight and use of a card under a real server."},
	}},
	{"Checkpoints", []subject{
		{"checkpoint", "make bench-checkpoint", "1 GiB to the local disk against the same writer without hashes, in turn; a save of the SDK against a plain copy and `torch.save`."},
		{"saving", "make bench-saving", "As overhead, with 256 MiB saved in memory every 10 steps and on the disk every 100, against torchrun without saves."},
		{"ckpt", "make e2e-ckpt", "Kills and power cuts at random writes, damages, and worlds of saves beside collection: nothing committed is lost, every damage is found."},
		{"restore", "make e2e-torch", "All launchers and their memory gone, restored from disks only and from the shared folder only; a state of 4 ranks on other numbers of ranks."},
		{"torch2", "make e2e-torch2", "DTensors, DCP folders and safetensors with PyTorch 2.5.1."},
	}},
	{"The house", []subject{
		{"ci", ".ci/run", "All that is run for a change, on a fresh clone."},
	}},
}
