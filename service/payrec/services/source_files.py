"""What becomes of a file that a data source has brought: transactions, or exchange rates."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from payrec.domain.caller import Caller
from payrec.models.imports import UploadOptions
from payrec.services.ecb_rates import EcbRateService
from payrec.services.imports import ImportService, UploadedFile
from payrec.services.source_configs import RATES_FORMAT


class SourceFiles:
    """Stores files by the format of their source. The same bytes again change nothing."""

    def __init__(self, *, imports: ImportService, rates: EcbRateService) -> None:
        self._imports = imports
        self._rates = rates

    async def store(self, caller: Caller, source: dict[str, Any], file: UploadedFile) -> tuple[UUID | None, bool]:
        """Store a file; return its import, if it has become one, and whether it was read whole.

        Raises
        ------
        PayrecError
            As ``ImportService.upload`` and ``EcbRateService.upload``.
        """
        if source["format"] == RATES_FORMAT:
            await self._rates.upload(caller, file)
            return None, True
        options = UploadOptions.model_validate({"data_source_id": source["id"]}, by_name=True)
        public, _ = await self._imports.upload(caller, file, options)
        return public.id, public.status == "completed"
