#pragma once
#include <cstddef>
#include <cstdint>
