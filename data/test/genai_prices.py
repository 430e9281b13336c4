"""Invented prices in the form of genai_prices/data.py. It is read, never run."""

providers: list[Provider] = [
    Provider(
        id='alpha',
        models=[
            ModelInfo(
                id='small-1',
                match=ClauseOr(or_=[ClauseEquals(equals='small-1'), ClauseRegex(regex='^small-1-\\d+$')]),
                prices=[
                    ConditionalPrice(prices=ModelPrice(input_mtok=Decimal('9'), output_mtok=Decimal('9'))),
                    ConditionalPrice(
                        constraint=StartDateConstraint(start_date=date(2030, 1, 1)),
                        prices=ModelPrice(input_mtok=Decimal('0.2'), output_mtok=Decimal('0.6')),
                    ),
                    ConditionalPrice(
                        constraint=TimeOfDateConstraint(start_time=time(1, 0), end_time=time(4, 0)),
                        prices=ModelPrice(input_mtok=Decimal('0.2'), output_mtok=Decimal('0.8')),
                    ),
                    ConditionalPrice(
                        constraint=StartDateConstraint(start_date=date(2040, 1, 1)),
                        prices=ModelPrice(input_mtok=Decimal('7'), output_mtok=Decimal('7')),
                    ),
                ],
            ),
            ModelInfo(
                id='new-1',
                match=ClauseStartsWith(starts_with='new-1'),
                prices=ModelPrice(
                    input_mtok=TieredPrices(base=Decimal('1'), tiers=[Tier(start=200000, price=Decimal('2'))]),
                    output_mtok=Decimal('4'),
                ),
            ),
            ModelInfo(
                id='new-2',
                match=ClauseEquals(equals='new-2'),
                prices=ModelPrice(input_mtok=Decimal('1'), output_mtok=Decimal('4')),
            ),
        ],
    ),
]
