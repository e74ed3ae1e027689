# SPDX-License-Identifier: MIT
"""The live tensors of Python in the blocks of torch's allocator, in words."""

import weakref

from .storages import Places, describe, live_tensors


class Live:
    """They are looked for when somebody first asks: among all objects of Python, which takes longer than the rest of a report.

    - A tensor that was made between the snapshot of the blocks and that moment is told apart: where nothing
      was allocated since, there is none in a block; else one is of another size than its block, or in a block that
      was free, unless it is of the same size, at the same address.
    - References are weak: who keeps this keeps no tensor.
    """

    def __init__(self, blocks, names, count=None, places=None):
        """blocks: Blocks of the snapshot. names: of names_of. count: says how often torch has allocated, None where nobody
        knows. places: of weak references to tensors, instead of a search."""
        self._blocks, self._names, self._places = blocks, names, places
        self._count, self._before = count, count and count()

    def at(self, address):
        """Each tensor whose storage has the address, as "float32[8, 64] model.weight", once."""
        if self._places is None:
            self._search()
        found = (reference() for reference in self._places.find(address))
        return list(dict.fromkeys(self._text(tensor) for tensor in found if tensor is not None))

    def _search(self):
        alike = self._before is not None and self._count() == self._before
        self._places = Places((place, size, weakref.ref(tensor)) for place, size, tensor in live_tensors() if alike or self._was_there(place, size))

    def _was_there(self, place, size):
        block = self._blocks.find(place)
        return block is None or block.is_active and (block.address != place or block.requested == size)

    def _text(self, tensor):
        name, storage = self._names.get(tensor.untyped_storage().data_ptr(), (None, None))
        return f"{describe(tensor)} {name}" if name and storage() is not None else describe(tensor)
