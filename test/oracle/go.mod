module gpuslice/test/oracle

go 1.26.0

require (
	github.com/NVIDIA/go-gpuallocator v0.6.0
	gpuslice v0.0.0
)

require (
	github.com/NVIDIA/go-nvlib v0.13.0 // indirect
	github.com/NVIDIA/go-nvml v0.13.4-1 // indirect
	github.com/google/uuid v1.6.0 // indirect
)

replace gpuslice => ../..
